"""Models by name, through fastembed: downloaded from the hub once, then read from its cache."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar

from twofold.encoders.base import DenseEncoder, Sparse
from twofold.errors import ConfigError, ModelUnavailable

if TYPE_CHECKING:
    from fastembed import SparseTextEmbedding, TextEmbedding

T = TypeVar("T")
_HUB = "https://huggingface.co"
# What goes before a query and before a passage, by the models' own cards; fastembed leaves it to the caller.
_SEARCHING = "Represent this sentence for searching relevant passages: "
_PREFIXES = (
    ("-e5-", ("query: ", "passage: ")),
    ("nomic-embed-text", ("search_query: ", "search_document: ")),
    ("bge-small-en", (_SEARCHING, "")),
    ("bge-base-en", (_SEARCHING, "")),
    ("bge-large-en", (_SEARCHING, "")),
    ("mxbai-embed-large", (_SEARCHING, "")),
    ("snowflake-arctic-embed", (_SEARCHING, "")),
)
_PATIENCE = 4.0


def dense(name: str) -> DenseEncoder:
    """A dense model of fastembed's list."""
    from fastembed import TextEmbedding

    described = _describe(name, TextEmbedding.list_supported_models(), "dense")
    name, dim = described["model"], int(described["dim"])  # as the list writes it: the name is recorded and compared
    return from_fastembed(_load(partial(TextEmbedding, name), name), name, dim=dim, by_name=True)


def from_fastembed(model: TextEmbedding, name: str, *, dim: int | None = None, by_name: bool = False) -> DenseEncoder:
    """A `TextEmbedding` as an encoder; queries and passages get the words in front that the model was trained with."""
    query, passage = _prefixes(name)
    return DenseEncoder(
        name=name,
        dim=dim,
        by_name=by_name,
        embed_documents=lambda texts: list(model.passage_embed([passage + text for text in texts])),
        embed_query=lambda text: next(iter(model.query_embed(query + text))),
    )


def _prefixes(name: str) -> tuple[str, str]:
    for family, prefixes in _PREFIXES:
        if family in name.lower():
            return prefixes
    return "", ""


class LearnedSparse:
    """A learned sparse model (SPLADE and the like) of fastembed's list."""

    def __init__(self, model: SparseTextEmbedding, name: str, *, needs_idf: bool = False) -> None:
        self._model = model
        self._name = name
        self.needs_idf = needs_idf

    @property
    def settings(self) -> dict[str, Any]:
        """The model's name decides everything."""
        return {"model": self._name}

    def embed_documents(self, texts: Sequence[str]) -> list[Sparse]:
        """Vectors to store."""
        return [_sorted(vector) for vector in self._model.embed(list(texts))]

    def embed_query(self, text: str) -> Sparse:
        """A vector to search with."""
        return _sorted(next(iter(self._model.query_embed(text))))

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Empty: such a model matches by expanded terms, not by the words of the query."""
        return [() for _ in texts]


def sparse(name: str) -> LearnedSparse:
    """A sparse model of fastembed's list."""
    from fastembed import SparseTextEmbedding

    described = _describe(name, SparseTextEmbedding.list_supported_models(), "sparse")
    name = described["model"]
    model = _load(partial(SparseTextEmbedding, name), name)
    return LearnedSparse(model, name, needs_idf=bool(described.get("requires_idf")))


def _sorted(vector: Any) -> Sparse:
    pairs = sorted(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))
    return Sparse([i for i, _ in pairs], [v for _, v in pairs])


def _describe(name: str, known: Sequence[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    for model in known:
        if model["model"].lower() == name.lower():
            return model
    raise ConfigError(
        f"{kind} model {name!r} is not one that fastembed knows: fastembed's list_supported_models() has them "
        f"all, or pass an embedding object of your own as {kind}="
    )


def _load(build: Callable[..., T], name: str) -> T:
    """From the cache if it is there; otherwise from the hub, if that answers at all.

    Asked for a model with no network, fastembed tries for most of a minute. So the hub is
    asked for one sign of life first.
    """
    try:
        return build(local_files_only=True)
    except Exception as error:  # fastembed raises many kinds when a cached file is missing
        missing = error
    reason = _hub_silence()
    if reason is None:
        try:
            return build()
        except Exception as error:
            reason = str(error)
    raise ModelUnavailable(
        f"model {name!r} is not in the local cache and could not be downloaded ({reason}). Connect once and open "
        "it again, or copy fastembed's cache folder (FASTEMBED_CACHE_PATH) from a machine that has it, or leave "
        "the model out to use the bundled one.",
        model=name,
    ) from missing


def _hub_silence() -> str | None:
    """Why the hub can't be reached, or None if it answers (with whatever status)."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        return "HF_HUB_OFFLINE is set"
    hub = os.environ.get("HF_ENDPOINT") or _HUB
    try:
        request = urllib.request.Request(hub, method="HEAD")  # noqa: S310 - the user's own hub setting
        urllib.request.urlopen(request, timeout=_PATIENCE).close()  # noqa: S310
    except urllib.error.HTTPError:
        return None
    except (OSError, ValueError, HTTPException) as error:
        return f"{hub} does not answer: {getattr(error, 'reason', error)}"
    return None
