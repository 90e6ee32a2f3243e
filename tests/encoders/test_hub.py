"""Models by name, with no hub: quick, clear failures."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twofold import ConfigError, HybridIndex, ModelUnavailable
from twofold.encoders.models import resolve_dense, resolve_sparse


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    endpoint = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return endpoint


GIVEN_UP_SECONDS = 30
"""Fastembed by itself tries for most of a minute; a busy machine needs some seconds for less."""
BY_NAME: list[Callable[[], Any]] = [
    lambda: resolve_dense("BAAI/bge-small-en-v1.5"),
    lambda: resolve_sparse("prithivida/Splade_PP_en_v1", None),
    lambda: HybridIndex.open(":memory:", dense="BAAI/bge-small-en-v1.5"),
]


@pytest.mark.parametrize("load", BY_NAME, ids=["dense", "sparse", "index"])
def test_no_hub_fails_within_seconds_and_says_what_to_do(no_hub: str, load: Callable[[], Any]) -> None:
    start = time.monotonic()
    with pytest.raises(ModelUnavailable) as caught:
        load()
    assert time.monotonic() - start < GIVEN_UP_SECONDS
    message = str(caught.value)
    assert caught.value.model in message
    for help_ in (no_hub, "does not answer", "FASTEMBED_CACHE_PATH", "leave the model out"):
        assert help_ in message


def test_offline_on_purpose_is_named(no_hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="HF_HUB_OFFLINE is set"):
        resolve_dense("BAAI/bge-small-en-v1.5")


def test_a_hub_that_takes_the_call_but_never_answers_is_given_up(no_hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.encoders.models._HUB_TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        start = time.monotonic()
        with pytest.raises(ModelUnavailable, match="does not answer"):
            resolve_dense("BAAI/bge-small-en-v1.5")
        assert time.monotonic() - start < GIVEN_UP_SECONDS


@pytest.mark.parametrize("endpoint", ["nonsense", "http://", "http://127.0.0.1:notaport", "file-not-a-scheme:x"])
def test_a_hub_address_that_is_none_is_no_crash(no_hub: str, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(ModelUnavailable):
        resolve_dense("BAAI/bge-small-en-v1.5")


def test_the_name_is_the_lists_whatever_its_case(no_hub: str) -> None:
    """The name is recorded in the collection: two spellings would be two models."""
    with pytest.raises(ModelUnavailable) as caught:
        resolve_dense("baai/BGE-small-en-v1.5")
    assert caught.value.model == "BAAI/bge-small-en-v1.5"


@pytest.mark.parametrize("name", ["", "nope/nope", "bge-small-en-v1.5", "prithivida/Splade_PP_en_v1"])
def test_an_unknown_dense_model_is_a_config_error(no_hub: str, name: str) -> None:
    with pytest.raises(ConfigError, match="list_supported_models"):
        resolve_dense(name)


@pytest.mark.parametrize("name", ["", "nope/nope", "BAAI/bge-small-en-v1.5"])
def test_an_unknown_sparse_model_is_a_config_error(no_hub: str, name: str) -> None:
    with pytest.raises(ConfigError, match="list_supported_models"):
        resolve_sparse(name, None)
