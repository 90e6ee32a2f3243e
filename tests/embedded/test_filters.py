"""Every kind of condition selects the same points as qdrant-client's local mode."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from qdrant_client import models as m

from twofold.embedded import BadRequest


def field(key: str, **test: Any) -> m.FieldCondition:
    return m.FieldCondition(key=key, **test)


def line(*points: tuple[float, float]) -> m.GeoLineString:
    return m.GeoLineString(points=[m.GeoPoint(lon=lon, lat=lat) for lon, lat in points])


NOTE = field("kind", match=m.MatchValue(value="note"))
SMALL = field("n", range=m.Range(lt=20))

CONDITIONS: dict[str, m.Condition] = {
    "match text": NOTE,
    "match integer": field("n", match=m.MatchValue(value=7)),
    "match bool": field("done", match=m.MatchValue(value=True)),
    "match any": field("kind", match=m.MatchAny(any=["note", "link"])),
    "match any integer": field("n", match=m.MatchAny(any=[1, 2, 99])),
    "match except": field("kind", match=m.MatchExcept(**{"except": ["note"]})),
    "match words": field("text", match=m.MatchText(text="number 7")),
    "match any word": field("text", match=m.MatchTextAny(text_any="7 8")),
    "match phrase": field("text", match=m.MatchPhrase(phrase="quick fox")),
    "match list element": field("tags", match=m.MatchValue(value="t3")),
    "range": field("price", range=m.Range(gte=2, lt=5.5)),
    "range open": field("price", range=m.Range(gt=10, lte=12)),
    "dates": field("when", range=m.DatetimeRange(gte=datetime(2024, 1, 10, tzinfo=timezone.utc))),
    "naive dates": field("when", range=m.DatetimeRange(lt=datetime(2024, 1, 10))),
    "geo box": field(
        "place",
        geo_bounding_box=m.GeoBoundingBox(top_left=m.GeoPoint(lon=10, lat=51), bottom_right=m.GeoPoint(lon=12, lat=50)),
    ),
    "geo radius": field("place", geo_radius=m.GeoRadius(center=m.GeoPoint(lon=11, lat=50.5), radius=60_000)),
    "geo polygon": field("place", geo_polygon=m.GeoPolygon(exterior=line((10, 50), (13, 50), (13, 52), (10, 50)))),
    "values count": field("tags", values_count=m.ValuesCount(gte=2)),
    "is empty": m.IsEmptyCondition(is_empty=m.PayloadField(key="note")),
    "is null": m.IsNullCondition(is_null=m.PayloadField(key="note")),
    "field is empty": field("note", is_empty=True),
    "field is null": field("note", is_null=True),
    "has id": m.HasIdCondition(has_id=[1, 3, "00000000-0000-0000-0000-000000000001", 999]),
    "has vector": m.HasVectorCondition(has_vector="words"),
    "nested": m.NestedCondition(
        nested=m.Nested(
            key="parts",
            filter=m.Filter(must=[field("name", match=m.MatchValue(value="b")), field("size", range=m.Range(gt=50))]),
        )
    ),
    "nested key": field("parts[].size", match=m.MatchValue(value=13)),
    "object key": field("place.lon", range=m.Range(gte=12)),
    "a filter": m.Filter(should=[NOTE, SMALL]),
}

FILTERS = {
    "must": m.Filter(must=[NOTE, SMALL]),
    "must, one": m.Filter(must=NOTE),
    "should": m.Filter(should=[NOTE, SMALL]),
    "must not": m.Filter(must_not=[NOTE, SMALL]),
    "min should": m.Filter(
        min_should=m.MinShould(conditions=[NOTE, SMALL, field("done", match=m.MatchValue(value=True))], min_count=2)
    ),
    "all": m.Filter(must=[SMALL], should=[NOTE], must_not=[field("n", match=m.MatchValue(value=3))]),
    "empty": m.Filter(),
    "empty lists": m.Filter(must=[], should=[], must_not=[]),
    **{name: m.Filter(must=[condition]) for name, condition in CONDITIONS.items()},
    **{f"not {name}": m.Filter(must_not=[condition]) for name, condition in CONDITIONS.items()},
}


def ids(client: Any, chosen: m.Filter) -> list[str]:
    return sorted(str(record.id) for record in client.scroll("notes", chosen, limit=1000)[0])


@pytest.mark.parametrize("name", FILTERS)
def test_selects_the_same_points(pair: Any, name: str) -> None:
    ours, local = pair
    assert ids(ours, FILTERS[name]) == ids(local, FILTERS[name])
    assert ours.count("notes", FILTERS[name]).count == len(ids(ours, FILTERS[name]))


def test_slices_cover_everything_once(notes: Any) -> None:
    slices = [m.Filter(must=[m.SliceCondition(slice=m.Slice(total=3, index=index))]) for index in range(3)]
    assert sorted(i for chosen in slices for i in ids(notes, chosen)) == ids(notes, m.Filter())


def test_two_tests_in_one_condition_both_count(notes: Any) -> None:
    both = field("n", match=m.MatchAny(any=[3, 30]), range=m.Range(gte=10))
    assert len(ids(notes, m.Filter(must=[both]))) == 1


def test_a_condition_that_tests_nothing_is_refused(notes: Any) -> None:
    with pytest.raises(BadRequest, match="tests nothing"):
        notes.count("notes", m.Filter(must=[field("n")]))


def test_prefix_and_substring_of_keywords(notes: Any) -> None:
    notes.create_payload_index("notes", "kind", m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, prefix=True))
    assert len(ids(notes, m.Filter(must=[field("kind", match=m.MatchPrefix(prefix="no"))]))) == 20
    assert len(ids(notes, m.Filter(must=[field("kind", match=m.MatchSubstring(substring="il"))]))) == 20
