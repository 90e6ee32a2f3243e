"""The cache of query vectors."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.encoders.base import LRU


@given(st.integers(0, 4), st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), max_size=30))
def test_it_keeps_the_most_recently_used(size: int, steps: list[tuple[bool, str]]) -> None:
    cache: LRU[int] = LRU(size)
    model: OrderedDict[str, int] = OrderedDict()
    for number, (put, key) in enumerate(steps):
        if put:
            cache.put(key, number)
            model[key] = number
            model.move_to_end(key)
            while len(model) > size:
                model.popitem(last=False)
        else:
            assert cache.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        assert len(cache) == len(model)


def test_a_value_that_is_read_stays() -> None:
    cache: LRU[int] = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_falsy_value_is_a_value() -> None:
    cache: LRU[int] = LRU(1)
    cache.put("a", 0)
    assert cache.get("a") == 0


@pytest.mark.parametrize("size", [0, 3])
def test_threads_do_not_break_it(size: int) -> None:
    cache: LRU[int] = LRU(size)

    def work(seed: int) -> None:
        for i in range(2000):
            key = str((seed * 7 + i) % 11)
            cache.put(key, int(key))
            assert cache.get(key) in (None, int(key))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(cache) <= size
