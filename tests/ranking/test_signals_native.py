"""What the engine computes by its formula is what our own functions compute, for every signal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.memory.faces import MemoryFace, Opener, opening
from twofold import MemoryConfig
from twofold.memory import recall
from twofold.ranking.signals import SignalRanker

FIELDS: dict[str, Any] = {"type": "keyword", "year": "integer", "genre": "keyword"}
WORDS = ("rathole", "tunnel", "port", "gateway", "cache", "film", "heist", "matrix", "docker", "kubernetes", "deploy")
TAGS = ["infra", "Infra", "home-server", "home", "São Paulo", "sao-paulo", "docker", "ci-cd", "cinema", "heist"]
NOW = datetime(2026, 2, 21, 12, tzinfo=timezone.utc)

CONFIGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "full recency": {"recency": "full", "recency_decay": 0.02},
    "blended recency": {"recency": "blend", "recency_share": 0.4},
    "soft recency": {"recency": "soft", "recency_share": 0.7, "recency_decay": 0.5},
    "no recency": {"recency_decay": 0.0},
    "blend of nothing": {"recency": "blend", "recency_share": 0.0},
    "type alpha": {"type_alpha": {"film": 0.8, "note": 0.1, "turn": 0.0, "unheard of": 1.0}},
    "type weights": {"type_weights": {"film": 1.5, "note": 0.2, "turn": 0.0}},
    "types, both": {"type_alpha": {"film": 0.9}, "type_weights": {"film": 0.4}, "alpha": 0.5},
    "pinned": {"pinned": 2.0, "recency": "full", "recency_decay": 1.0},
    "popular": {"popularity": 3.0},
    "important": {"importance": 1.0},
    "tags": {"tag_weight": 2.0},
    "no tags": {"tag_weight": 0.0},
    "nothing": {"tag_weight": 0, "recency_decay": 0, "popularity": 0, "importance": 0, "pinned": 0},
    "alpha 0.9": {"alpha": 0.9},
    "everything": {
        "recency": "blend", "recency_share": 0.3, "type_alpha": {"film": 0.7}, "type_weights": {"note": 1.3},
        "pinned": 0.5, "popularity": 0.4, "importance": 0.6, "tag_weight": 1.5, "alpha": 0.6,
    },
}  # fmt: skip
QUERIES = [
    "rathole tunnel",
    "infra docker cinema heist",  # three tags: counted half as much again
    "films of 2014",
    "the home server in sao paulo",
    "notes about a noir from 1999",
    "kuberntes",
    "gateway port cache deploy director",
]


def fill(memory: MemoryFace, seed: int) -> None:
    """Random memories with everything that signals look at, and some rows that lack it."""
    rng = random.Random(seed)
    drafts = []
    for number in range(60):
        metadata = {}
        if rng.random() < 0.6:
            metadata["year"] = rng.choice([1999, 2013, 2014, [2013, 2014], "2014"])
        if rng.random() < 0.5:
            metadata["genre"] = rng.choice(["noir", "heist", ["noir", "comedy"]])
        drafts.append(
            {
                "text": f"{' '.join(rng.choices(WORDS, k=rng.randint(3, 9)))} {number}",
                "tags": rng.sample(TAGS, rng.randint(0, 4)),
                "type": rng.choice(["film", "note", "turn", "link"]),
                "pinned": rng.random() < 0.2,
                "importance": round(rng.random(), 3),
                "metadata": metadata,
            }
        )
    ids = memory.remember_many(drafts)
    for identity in ids:
        age = timedelta(days=rng.choice([0, 0.5, 3, 40, 400, -20]))
        memory.raw.set(identity, updated=(NOW - age).isoformat(), access_count=rng.choice([0, 1, 7, 300]))
    for identity in rng.sample(ids, 8):
        memory.raw.drop(identity, *rng.sample(["updated", "access_count", "importance", "pinned", "tags"], 3))


@contextmanager
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return NOW

    with monkeypatch.context() as patch:
        patch.setattr(recall, "datetime", Clock)
        yield


@dataclass
class Stocked:
    """A user with sixty memories."""

    engine: str
    opener: Opener
    user: str | None = None

    def open(self, config: MemoryConfig) -> MemoryFace:
        return self.opener(self.user, config=config, collection=f"native-{self.engine}")


@pytest.fixture(scope="module", params=["embedded-sync", "local-sync", "http-async"])
def stocked(request: pytest.FixtureRequest) -> Iterator[Stocked]:
    with opening(request.param) as opener:
        store = Stocked(request.param, opener)
        memory = store.open(MemoryConfig(fields=FIELDS))
        fill(memory, 7)
        store.user = memory.memory.user
        yield store


@pytest.mark.parametrize("name", CONFIGS)
def test_native_and_our_own_arithmetic_agree(stocked: Stocked, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if stocked.engine == "http-async" and name not in ("defaults", "everything"):
        pytest.skip("the engine behind it is the embedded one, which has computed this already")
    native, own = (
        stocked.open(MemoryConfig(fields=FIELDS, min_score=None, touch=False, **CONFIGS[name])) for _ in "ab"
    )
    store = own.memory._store
    store.search = store.search.model_copy(update={"native": False})
    asked: list[bool] = []
    real = SignalRanker.native

    def noted(self: SignalRanker, *legs: Any) -> Any:
        asked.append(True)
        return real(self, *legs)

    monkeypatch.setattr(SignalRanker, "native", noted)
    with frozen(monkeypatch):
        for query in QUERIES:
            asked.clear()
            by_engine = native.recall(query, 25, explain=True)
            assert asked, "the engine was to compute it"
            asked.clear()
            by_us = own.recall(query, 25, explain=True)
            assert not asked
            assert by_engine.mode == by_us.mode == "hybrid"
            assert len(by_engine) == 25
            assert [h.score for h in by_engine] == pytest.approx([h.score for h in by_us], rel=1e-6, abs=1e-6)
            # Below that, scores differ by less than the engine's 32 bits can tell.
            told = sum(hit.score > 1e-6 for hit in by_us)
            assert by_engine.ids[:told] == by_us.ids[:told]
            for one, other in zip(by_engine[:told], by_us[:told], strict=True):
                assert one.explanation.tag_boost == pytest.approx(other.explanation.tag_boost, abs=1e-6)
                assert one.explanation.recency_factor == pytest.approx(other.explanation.recency_factor, abs=1e-6)


def test_the_explanation_adds_up_to_the_score(stocked: Stocked) -> None:
    memory = stocked.open(MemoryConfig(fields=FIELDS, min_score=None, touch=False))
    for query in QUERIES:
        for hit in memory.recall(query, 25, explain=True):
            why = hit.explanation
            factors = (
                why.recency_factor * why.popularity_factor * why.importance_factor * why.pinned_factor * why.type_factor
            )
            parts = why.semantic_part + why.lexical_part + why.tag_boost
            assert parts * factors == pytest.approx(hit.score, rel=1e-4, abs=1e-6)


def test_three_named_tags_were_among_the_queries(stocked: Stocked) -> None:
    memory = stocked.open(MemoryConfig(fields=FIELDS, min_score=None, touch=False))
    assert len(memory.recall(QUERIES[1]).tags) >= 3
    assert {"heist", "infra", "Infra"} <= set(memory.recall(QUERIES[1]).tags), "some of them in several spellings"
    assert {"film", "2014"} <= set(memory.recall(QUERIES[2]).tags)
    assert memory.recall(QUERIES[5]).corrections == {"kuberntes": "kubernetes"}
