"""Every kind of condition that twofold.engine.filters writes, against a sentence of Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from qdrant_client import models

from tests.kit.conftest import Shelf
from tests.kit.corpus import START, Point, points

Holds = Callable[[Point], bool]
MOMENT = START + timedelta(days=21, hours=21)
IDS = [point.id for point in points(6)]


def field(key: str, **condition: Any) -> models.FieldCondition:
    return models.FieldCondition(key=f"metadata.{key}", **condition)


def value(key: str, wanted: Any) -> models.FieldCondition:
    return field(key, match=models.MatchValue(value=wanted))


def within(key: str, **bounds: float) -> models.FieldCondition:
    return field(key, range=models.Range(**bounds))


def dated(**bounds: datetime) -> models.FieldCondition:
    return field("when", range=models.DatetimeRange(**bounds))


def text(words: str) -> models.FieldCondition:
    return models.FieldCondition(key="text", match=models.MatchText(text=words))


def empty(key: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=f"metadata.{key}"))


def among(ids: list[Any]) -> models.HasIdCondition:
    return models.HasIdCondition(has_id=ids)


def must(*conditions: Any) -> models.Filter:
    return models.Filter(must=list(conditions))


def either(*conditions: Any) -> models.Filter:
    return models.Filter(should=list(conditions))


def no(*conditions: Any) -> models.Filter:
    return models.Filter(must_not=list(conditions))


def when(point: Point) -> datetime:
    return datetime.fromisoformat(point.metadata["when"])


CASES: dict[str, tuple[models.Filter | None, Holds]] = {
    "none": (None, lambda p: True),
    "empty filter": (models.Filter(), lambda p: True),
    "empty must": (must(), lambda p: True),
    "keyword": (must(value("kind", "film")), lambda p: p.metadata["kind"] == "film"),
    "keyword, other case": (must(value("kind", "Film")), lambda p: False),
    "keyword in a list": (must(value("tags", "t3")), lambda p: "t3" in p.metadata["tags"]),
    "nested key": (must(value("lang.code", "no")), lambda p: p.metadata["lang"]["code"] == "no"),
    "quoted key": (must(value('"odd key!"', 4)), lambda p: p.metadata["odd key!"] == 4),
    "flag": (must(value("done", False)), lambda p: p.metadata["done"] is False),
    "whole number": (must(value("rank", 7)), lambda p: p.metadata["rank"] == 7),
    "no such key": (must(value("nobody", "x")), lambda p: False),
    "any": (
        must(field("kind", match=models.MatchAny(any=["film", "link", "x"]))),
        lambda p: p.metadata["kind"] in ("film", "link"),
    ),
    "any number": (must(field("rank", match=models.MatchAny(any=[1, 2, 99]))), lambda p: p.metadata["rank"] in (1, 2)),
    "any of none": (must(field("kind", match=models.MatchAny(any=[]))), lambda p: False),
    "except": (
        must(field("kind", match=models.MatchExcept(**{"except": ["film"]}))),
        lambda p: p.metadata["kind"] != "film",
    ),
    "range": (must(within("n", gt=2.5, lte=6)), lambda p: 2.5 < p.metadata["n"] <= 6),
    "range as equality": (must(within("n", gte=3, lte=3)), lambda p: p.metadata["n"] == 3),
    "range of fractions": (must(within("n", gte=2.25, lt=2.5)), lambda p: 2.25 <= p.metadata["n"] < 2.5),
    "range of whole numbers": (must(within("rank", gte=10.5, lt=20)), lambda p: 10.5 <= p.metadata["rank"] < 20),
    "range on words": (must(within("kind", gte=0)), lambda p: False),
    "range on flags": (must(within("done", gte=0)), lambda p: False),
    "dates": (
        must(dated(gte=MOMENT, lt=MOMENT + timedelta(days=20))),
        lambda p: MOMENT <= when(p) < MOMENT + timedelta(days=20),
    ),
    "one date": (must(dated(gte=MOMENT, lte=MOMENT)), lambda p: when(p) == MOMENT),
    "a date elsewhere": (
        must(dated(gt=MOMENT.astimezone(timezone(timedelta(hours=-7))))),
        lambda p: when(p) > MOMENT,
    ),
    "empty": (must(empty("note")), lambda p: p.metadata.get("note") in (None, [])),
    "present": (no(empty("note")), lambda p: p.metadata.get("note") not in (None, [])),
    "empty, no such key": (must(empty("nobody.there")), lambda p: True),
    "ids": (must(among(IDS)), lambda p: p.id in IDS),
    "no ids": (must(among([])), lambda p: False),
    "not no ids": (no(among([])), lambda p: True),
    "unknown ids": (must(among([10**9])), lambda p: False),
    "text": (must(text("lantern")), lambda p: "Lantern" in p.payload["text"]),
    "text, all words": (must(text("River STONE")), lambda p: {"river", "stone"} <= set(_words(p))),
    "text, half a word": (must(text("riv")), lambda p: False),
    "text beyond ascii": (must(text("søren")), lambda p: "Søren" in p.payload["text"]),
    "should": (either(value("kind", "film"), within("n", gt=12)), lambda p: _film(p) or p.metadata["n"] > 12),
    "empty should": (either(), lambda p: True),
    "must not": (no(value("kind", "film"), within("n", gt=12)), lambda p: not _film(p) and p.metadata["n"] <= 12),
    "must and must not": (
        models.Filter(must=[value("done", True)], must_not=[value("kind", "film")]),
        lambda p: p.metadata["done"] and not _film(p),
    ),
    "must and should": (
        models.Filter(must=[value("done", True)], should=[value("kind", "film"), value("kind", "link")]),
        lambda p: p.metadata["done"] and p.metadata["kind"] != "note",
    ),
    "nested": (
        must(either(value("kind", "film"), must(value("done", True), no(within("n", lt=5)))), no(value("tags", "t1"))),
        lambda p: (_film(p) or (p.metadata["done"] and p.metadata["n"] >= 5)) and "t1" not in p.metadata["tags"],
    ),
    "not not": (no(no(value("kind", "film"))), lambda p: _film(p)),
    "nothing, or": (either(among([]), value("kind", "film")), lambda p: _film(p)),
}


def _film(point: Point) -> bool:
    return bool(point.metadata["kind"] == "film")


def _words(point: Point) -> list[str]:
    words: list[str] = point.payload["text"].lower().replace(",", "").split()
    return words


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.replace(" ", "-"))
def test_a_filter_means_the_same_everywhere(library: Shelf, case: str) -> None:
    condition, holds = CASES[case]
    expected = {point.id for point in library.points if holds(point)}
    engine, name = library.engine, library.name
    records, _ = engine.scroll(name, condition, limit=100, with_payload=False)
    assert {record.id for record in records} == expected
    assert engine.count(name, condition, exact=True).count == len(expected)
    dense = {point.id for point in library.points if "dense" in point.vectors}
    found = engine.query_points(name, [1.0] * 8, using="dense", query_filter=condition, limit=100).points
    assert {each.id for each in found} == expected & dense
