"""A model that is down is left alone for a while, and tried again."""

from __future__ import annotations

import pytest

from twofold import EncoderError, HybridIndex
from twofold.encoders.base import Breaker
from twofold.testing import HashEmbedding


class Failing(HashEmbedding):
    """Counts how often it is asked, and fails while it is down."""

    asked = 0
    down = False

    def embed_query(self, text: str) -> list[float]:
        self.asked += 1
        if self.down:
            raise OSError("no route to the model")
        return super().embed_query(text)


def test_a_model_that_is_down_is_not_asked_for_every_search() -> None:
    model = Failing()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(["the first text", "another one"])
        model.down, model.asked = True, 0
        results = [index.search(f"text number {n}") for n in range(10)]
        assert model.asked == 3
        assert all(result.mode == "lexical" and result.hits for result in results)
        assert "no route to the model" in str(results[0].degraded)
        assert "failed 3 times in a row" in str(results[-1].degraded)


def test_a_query_whose_vector_is_known_needs_no_model() -> None:
    model = Failing()
    with HybridIndex.open(":memory:", dense=model) as index:
        index.add(["the first text", "another one"])
        index.search("text")
        model.down = True
        for n in range(5):
            index.search(f"text number {n}")
        assert index.search("text").mode == "hybrid"


def test_after_a_while_it_is_tried_again() -> None:
    now = [0.0]
    breaker = Breaker(clock=lambda: now[0])
    for _ in range(3):
        breaker.check()
        breaker.failed()
    with pytest.raises(EncoderError, match="3 times in a row and is tried again in 30 s"):
        breaker.check()
    now[0] = 31.0
    breaker.check()
    breaker.failed()
    with pytest.raises(EncoderError):
        breaker.check()
    now[0] = 62.0
    breaker.worked()
    breaker.check()
    breaker.failed()
    breaker.check()
