"""A fault that goes on is told at once and again after a while: not every second, and never no more."""

from __future__ import annotations

import logging

import pytest

from twofold import HybridIndex
from twofold.telling import AGAIN_SECONDS, Told
from twofold.testing import HashEmbedding


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_outage_is_told_once_and_again_while_it_goes_on() -> None:
    clock = Clock()
    told = Told(clock)
    heard = []
    for second in range(int(2.5 * AGAIN_SECONDS)):
        clock.now = float(second)
        if told.is_news(f"it failed {second + 3} times in a row and is tried again in {30 - second % 30} s"):
            heard.append(second)
    assert heard == [0, AGAIN_SECONDS, 2 * AGAIN_SECONDS]


def test_thousands_of_different_reasons_do_not_silence_a_new_one() -> None:
    told = Told(Clock())
    words = [f"{first}{second}{third}" for first in "abcdefghij" for second in "abcdefghij" for third in "abcdefghij"]
    assert all(told.is_news(f"the model stumbled over {word}") for word in words)
    assert told.is_news("the engine refused to fuse")
    assert not told.is_news("the engine refused to fuse")


def test_a_search_that_stays_degraded_is_logged_once_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    class Down(HashEmbedding):
        def embed_query(self, text: str) -> list[float]:
            if "rathole" in text:
                raise RuntimeError(f"no answer, request {len(text)} of {id(object())}")
            return super().embed_query(text)

    with HybridIndex.open(":memory:", dense=Down()) as index, caplog.at_level(logging.WARNING, "twofold"):
        index.add(["Rathole listens on 2333"])
        results = [index.search("rathole" + "!" * number) for number in range(50)]
    assert all(result.degraded for result in results)
    said = [record.degraded for record in caplog.records if hasattr(record, "degraded")]
    assert len([each for each in said if "no answer" in each]) == 1
    assert len([each for each in said if "in a row" in each]) == 1
