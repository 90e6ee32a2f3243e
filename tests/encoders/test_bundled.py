"""The model that comes with the package."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.encoders.models import BUNDLED_DIM, bundled_dense, dimension_of, resolve_dense

MODEL = bundled_dense()


def similarity(one: str, other: str) -> float:
    return float(np.dot(MODEL.embed_query(one), MODEL.embed_query(other)))


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
def test_what_means_the_same_is_nearer_than_what_does_not(query: str, near: str, far: str) -> None:
    assert similarity(query, near) > similarity(query, far) + 0.2


def test_vectors_have_384_dimensions_and_unit_length() -> None:
    vectors = MODEL.embed_documents(["one", "a longer text about tunnels and ports", "", "日本語", "😀", "\0"])
    assert vectors.shape == (6, BUNDLED_DIM) == (6, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    assert MODEL.embed_query("one").shape == (384,)
    assert dimension_of(MODEL) == 384


def test_the_same_text_is_the_same_vector() -> None:
    texts = ["the first text", "another one that is longer than the first"]
    assert np.array_equal(MODEL.embed_documents(texts), MODEL.embed_documents(texts))
    assert np.array_equal(MODEL.embed_query(texts[0]), resolve_dense(None).embed_query(texts[0]))


def test_a_text_is_the_same_vector_whatever_comes_with_it() -> None:
    """The 8-bit model scales by the batch; documents and queries of the same words must not differ for that."""
    texts = [f"text number {i} " + "about tunnels " * (i * 7 % 11) for i in range(70)]
    together = MODEL.embed_documents(texts)
    for position in (0, 1, 31, 32, 33, 40, 69):
        assert np.array_equal(together[position], MODEL.embed_query(texts[position]))


def test_no_texts_no_vectors() -> None:
    assert MODEL.embed_documents([]).shape == (0, 384)


def test_a_long_text_is_cut_and_not_refused() -> None:
    start = "A tunnel through NAT for a home server. " * 40
    vectors = MODEL.embed_documents([start, start + "Bananas are yellow. " * 20_000])
    assert float(vectors[0] @ vectors[1]) > 0.999


def test_the_bundled_model_says_what_it_knows() -> None:
    assert MODEL.by_name
    assert MODEL.languages == frozenset({"english"})
