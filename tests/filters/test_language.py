"""The words of the filter language: what each means, and what is refused."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from twofold import CollectionSettings, Document, FilterError, HybridIndex
from twofold.engine.client import PARTS
from twofold.engine.requests import to_filter
from twofold.filters import parse
from twofold.testing import HashEmbedding

STORED: dict[str, Mapping[str, Any]] = {
    "bare": {},
    "null": {"x": None},
    "empty": {"x": []},
    "one": {"x": 1, "n": {"y": "deep"}, "Case": 1},
    "float": {"x": 1.0},
    "true": {"x": True},
    "text": {"x": "1", "n": {"y": ["deep", "er"]}, "case": 1},
    "list": {"x": [1, "a"]},
    "blank": {"x": ""},
    "object": {"x": {"y": 1}},
    "hole": {"x": [None]},
}
PRESENT = set(STORED) - {"bare", "null", "empty"}


@pytest.fixture(scope="module")
def index() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document(text="memory", id=name, metadata=metadata) for name, metadata in STORED.items()])
        yield index


def found(index: HybridIndex, condition: Mapping[str, Any]) -> set[str]:
    """The ids that a filter leaves, the same whether they are searched or counted."""
    ids = index.search("memory", 50, filter=condition).ids
    assert index.count(condition) == len(ids)
    return set(ids)


def same_everywhere(value: object) -> str:
    """A test id that pytest-xdist finds in every process: the order of a set differs."""
    return f"{len(value)} found" if isinstance(value, set) else str(value)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, set(STORED)),
        ({"and": []}, set(STORED)),
        ({"or": []}, set()),
        ({"not": {}}, set()),
        ({"not": {"or": []}}, set(STORED)),
        ({"or": [{}]}, set(STORED)),
        ({"or": [{"or": []}, {"x": 1}]}, {"one", "float", "list"}),
        ({"x": []}, set()),
        ({"x": {"in": []}}, set()),
        ({"x": {"nin": []}}, set(STORED)),
        ({"x": {"not": []}}, set(STORED)),
        ({"x": {"in": [], "exists": True}}, set()),
        ({"x": None}, set(STORED) - PRESENT),
        ({"x": {"eq": None}}, set(STORED) - PRESENT),
        ({"x": {"ne": None}}, PRESENT),
        ({"x": {"exists": True}}, PRESENT),
        ({"x": {"exists": False}}, set(STORED) - PRESENT),
        ({"x": {"not": {"exists": False}}}, PRESENT),
        ({"x": {"not": {"not": {"exists": True}}}}, PRESENT),
        ({"x": 1}, {"one", "float", "list"}),
        ({"x": 1.0}, {"one", "float", "list"}),
        ({"x": True}, {"true"}),
        ({"x": "1"}, {"text"}),
        ({"x": ""}, {"blank"}),
        ({"x": {"ne": 1}}, set(STORED) - {"one", "float", "list"}),
        ({"x": [True, "1", 7]}, {"true", "text"}),
        ({"x": ["a", "", "1"]}, {"text", "list", "blank"}),
        ({"Case": 1}, {"one"}),
        ({"case": 1}, {"text"}),
        ({"x": {"gte": 1}}, {"one", "float", "list"}),
        ({"x": {"gt": 1}}, set()),
        ({"x": {"gt": 2, "lt": 1}}, set()),
        ({"n.y": "deep"}, {"one", "text"}),
        ({"n": "deep"}, set()),
        ({"n.y": {"ne": "deep"}}, set(STORED) - {"one", "text"}),
        ({"n.y": "deep", "x": 1}, {"one"}),
        ({"x": {"text": "A"}}, {"list"}),
        ({"absent": {"ne": 1}}, set(STORED)),
        ({"absent": {"lt": 1e9}}, set()),
    ],
    ids=same_everywhere,
)
def test_what_a_filter_leaves(index: HybridIndex, condition: dict[str, Any], expected: set[str]) -> None:
    assert found(index, condition) == expected


def test_the_words_of_a_text_may_come_in_any_order_and_case_but_all_must_be_there() -> None:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(["m"], ids=["fox"], metadatas=[{"t": "The quick, brown FOX"}])
        assert index.count({"t": {"text": "fox QUICK"}}) == 1
        assert index.count({"t": {"text": "fox slow"}}) == 0
        assert index.count({"t": {"text": "fo"}}) == 0
        assert index.count({"t": {"text": "!?"}}) == 0


def deep(levels: int, key: str) -> dict[str, Any]:
    condition: dict[str, Any] = {"x": 1}
    for _ in range(levels):
        condition = {key: condition if key == "not" else [condition]}
    return condition


def deep_field(levels: int) -> dict[str, Any]:
    condition: Any = 1
    for _ in range(levels):
        condition = {"not": condition}
    return {"x": condition}


CYCLE: dict[str, Any] = {}
CYCLE["and"] = [CYCLE]


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        pytest.param({"x": {"regex": "a"}}, "unknown operator 'regex'", id="unknown operator"),
        pytest.param({"x": {"$regex": "a"}}, "unknown operator 'regex'", id="unknown $operator"),
        pytest.param({"x": {"eq": 1, "oops": 1}}, "unknown operator 'oops'", id="one of two unknown"),
        pytest.param({"x": {"EQ": 1}}, "unknown operator 'EQ'", id="capitals"),
        pytest.param({"x": {"$$eq": 1}}, r"unknown operator '\$eq'", id="two dollars"),
        pytest.param({"$nor": []}, r"unknown operator '\$nor'", id="unknown at the top"),
        pytest.param({"$eq": 1}, "unknown operator", id="operator with no field"),
        pytest.param({"author": {"name": "Ada"}}, r"written 'author\.name'", id="nested dict"),
        pytest.param({"x": {}}, "empty dict", id="empty dict"),
        pytest.param({"x": {"not": {}}}, "empty dict", id="empty dict under not"),
        pytest.param({"x": {"eq": 1, "$eq": 2}}, "twice", id="same operator twice"),
        pytest.param({"x": {"eq": [1]}}, "use 'in'", id="list for eq"),
        pytest.param({"x": {"ne": (1,)}}, "use 'in'", id="tuple for ne"),
        pytest.param({"x": {"in": "abc"}}, "takes a list", id="string for in"),
        pytest.param({"x": {"nin": 5}}, "takes a list", id="number for nin"),
        pytest.param({"x": {"in": None}}, "takes a list", id="None for in"),
        pytest.param({"x": {"in": {"a": 1}}}, "takes a list", id="dict for in"),
        pytest.param({"x": {"in": [[1]]}}, "takes one value", id="list in a list"),
        pytest.param({"x": {"in": [None]}}, "got NoneType", id="None in a list"),
        pytest.param({"x": [{"a": 1}]}, "got dict", id="dict in a list"),
        pytest.param({"x": math.nan}, "finite", id="NaN"),
        pytest.param({"x": [math.inf]}, "finite", id="infinity in a list"),
        pytest.param({"x": {"gt": math.nan}}, "finite", id="NaN bound"),
        pytest.param({"x": {"lt": -math.inf}}, "finite", id="infinite bound"),
        pytest.param({"x": {"gt": True}}, "number or a date", id="bool bound"),
        pytest.param({"x": {"gt": None}}, "number or a date", id="None bound"),
        pytest.param({"x": {"gt": [1]}}, "number or a date", id="list bound"),
        pytest.param({"x": {"gt": "soon"}}, "2024-05-01", id="bad date"),
        pytest.param({"x": {"gt": ""}}, "2024-05-01", id="empty date"),
        pytest.param({"x": {"gt": "2024-13-01"}}, "2024-05-01", id="month 13"),
        pytest.param({"x": {"gt": "5"}}, "2024-05-01", id="number as text"),
        pytest.param({"x": {"gt": 5, "lt": "2024-05-01"}}, "all numbers or all dates", id="mixed bounds"),
        pytest.param({"x": {"exists": 1}}, "True or False", id="exists 1"),
        pytest.param({"x": {"exists": None}}, "True or False", id="exists None"),
        pytest.param({"x": {"text": ""}}, "words to look for", id="no words"),
        pytest.param({"x": {"text": "  "}}, "words to look for", id="blank words"),
        pytest.param({"x": {"text": 5}}, "words to look for", id="text 5"),
        pytest.param({"x": object()}, "got object", id="object"),
        pytest.param({"x": b"a"}, "got bytes", id="bytes"),
        pytest.param({"x": bytearray(b"a")}, "got bytearray", id="bytearray"),
        pytest.param({"x": timedelta(1)}, "got timedelta", id="timedelta"),
        pytest.param({"x": 2**63}, "64 bits", id="beyond 64 bits"),
        pytest.param({"x": {"in": [-(2**63) - 1]}}, "64 bits", id="below 64 bits"),
        pytest.param({"x": {"gt": 10**400}}, "64 bits", id="no float is that large"),
        pytest.param({"and": {"x": 1}}, "takes a list", id="and of a dict"),
        pytest.param({"or": None}, "takes a list", id="or of None"),
        pytest.param({"$or": "x"}, "takes a list", id="or of a string"),
        pytest.param({"or": [1]}, "a filter is a dict", id="or of numbers"),
        pytest.param({"and": [[]]}, "a filter is a dict", id="and of lists"),
        pytest.param({"not": [{"x": 1}]}, "a filter is a dict", id="not of a list"),
        pytest.param({"not": None}, "a filter is a dict", id="not of None"),
        pytest.param({1: 2}, "name of a field", id="number as key"),
        pytest.param({"": 2}, "name of a field", id="empty key"),
        pytest.param({"a..b": 2}, "name of a field", id="empty part"),
        pytest.param({".a": 2}, "name of a field", id="leading dot"),
        pytest.param({"a.": 2}, "name of a field", id="trailing dot"),
        pytest.param({'a"b': 2}, "name of a field", id="quote in a key"),
        pytest.param({"a\ud800": 2}, "name of a field", id="surrogate in a key"),
        pytest.param({"x": "\ud800"}, "surrogate", id="surrogate"),
        pytest.param({"x": {"text": "\ud800"}}, "surrogate", id="surrogate in words"),
        pytest.param({"a\nb": 2}, "control", id="newline in a key"),
        pytest.param({"a\0b": 2}, "control", id="NUL in a key"),
        pytest.param(deep(33, "and"), "deeper", id="and too deep"),
        pytest.param(deep(33, "not"), "deeper", id="not too deep"),
        pytest.param(deep_field(5000), "deeper", id="not of a field too deep"),
        pytest.param(CYCLE, "deeper", id="endless"),
    ],
)
def test_what_means_nothing_is_refused_with_a_hint(index: HybridIndex, condition: Any, hint: str) -> None:
    with pytest.raises(FilterError, match=hint):
        index.count(condition)
    with pytest.raises(FilterError, match=hint):
        index.search("memory", filter=condition)


@pytest.mark.parametrize("condition", [["x"], "x", 5, [("x", 1)]], ids=str)
def test_a_filter_that_is_no_dict_is_refused(index: HybridIndex, condition: Any) -> None:
    with pytest.raises(FilterError, match="a filter is a dict"):
        index.search("memory", filter=condition)


@pytest.mark.parametrize("levels", [1, 31, 32])
def test_thirty_two_levels_are_fine(index: HybridIndex, levels: int) -> None:
    expected = {"one", "float", "list"}
    assert found(index, deep(levels, "and")) == expected
    assert found(index, deep_field(levels)) == (expected if levels % 2 == 0 else set(STORED) - expected)


@pytest.mark.parametrize(
    ("plain", "dollar"),
    [
        ({"or": [{"x": 1}, {"y": 2}]}, {"$or": [{"x": 1}, {"y": 2}]}),
        ({"and": [{"x": 1}]}, {"$and": [{"x": 1}]}),
        ({"not": {"x": 1}}, {"$not": {"x": 1}}),
        ({"x": {"not": {"gt": 3}}}, {"x": {"$not": {"$gt": 3}}}),
        *[
            ({"x": {name: value}}, {"x": {f"${name}": value}})
            for name, value in {
                "eq": 1, "ne": 1, "in": [1], "nin": [1], "gt": 1, "gte": 1, "lt": 1, "lte": 1,
                "exists": True, "text": "a",
            }.items()
        ],
        ({"x": 1}, {"x": {"$eq": 1}}),
        ({"x": [1, 2]}, {"x": {"$in": (1, 2)}}),
        ({"x": None}, {"x": {"$exists": False}}),
    ],
    ids=str,
)  # fmt: skip
def test_a_dollar_changes_nothing(plain: dict[str, Any], dollar: dict[str, Any]) -> None:
    assert parse(plain) == parse(dollar)


def test_parsing_leaves_the_filter_as_it_was() -> None:
    condition = {"or": [{"x": {"gte": 1, "not": [1, 2]}}, {"y": None}]}
    written = repr(condition)
    to_filter(parse(condition), PARTS)
    assert repr(condition) == written


# --- numbers at the edge of floats ----------------------------------------------------------------


BIG = 2**60


@pytest.fixture(scope="module")
def numbers() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        values = [BIG - 1, BIG, BIG + 1, BIG + 300, float(BIG), 1e300, 2**53, 2**53 - 1]
        index.add([Document(text="memory", id=repr(value), metadata={"x": value}) for value in values])
        yield index


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"x": BIG}, {BIG}),
        ({"x": BIG + 1}, {BIG + 1}),
        ({"x": [BIG - 1, BIG + 1]}, {BIG - 1, BIG + 1}),
        ({"x": {"ne": BIG}}, {BIG - 1, BIG + 1, BIG + 300, float(BIG), 1e300, 2**53, 2**53 - 1}),
        ({"x": 1e300}, {1e300}),
        ({"x": 2**53}, {2**53}),
        ({"x": float(2**53)}, {2**53}),
    ],
    ids=same_everywhere,
)
def test_huge_numbers_are_told_apart(numbers: HybridIndex, condition: dict[str, Any], expected: set[float]) -> None:
    assert found(numbers, condition) == set(map(repr, expected))


@pytest.mark.parametrize("name", ["gt", "gte", "lt", "lte"])
@pytest.mark.parametrize("bound", [BIG - 1, BIG + 1, BIG + 100, BIG - 100, -BIG - 1, 2**62 + 1, 2**53 + 1])
def test_a_bound_that_no_float_holds_never_widens(numbers: HybridIndex, name: str, bound: int) -> None:
    compare = {"gt": int.__gt__, "gte": int.__ge__, "lt": int.__lt__, "lte": int.__le__}[name]
    ids = found(numbers, {"x": {name: bound}})
    assert all(compare(int(float(i)) if "e" in i or "." in i else int(i), bound) for i in ids)
    # … and loses only what lies closer to it than floats do.
    clear = bound + (1024 if name.startswith("g") else -1024)
    assert found(numbers, {"x": {name: clear}}) <= ids


# --- dates ----------------------------------------------------------------------------------------


OSLO = timezone(timedelta(hours=2))
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
MOMENTS: dict[str, Any] = {
    "before": datetime(2024, 5, 1, 11, 59, 59, 999_999, tzinfo=timezone.utc),
    "noon": NOON,
    "noon naive": datetime(2024, 5, 1, 12),
    "noon in Oslo": datetime(2024, 5, 1, 14, tzinfo=OSLO),
    "noon as text": "2024-05-01T12:00:00Z",
    "noon as Oslo text": "2024-05-01T14:00:00+02:00",
    "noon among others": ["2000-01-01", NOON],
    "day": date(2024, 5, 1),
    "day as text": "2024-05-01",
    "no date": "May 1st",
    "number": 20240501,
}
AT_NOON = {name for name in MOMENTS if name.startswith("noon")}
DAY = {"day", "day as text"}


@pytest.fixture(scope="module")
def calendar() -> Iterator[HybridIndex]:
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add([Document(text="memory", id=name, metadata={"at": at}) for name, at in MOMENTS.items()])
        yield index


@pytest.mark.parametrize(
    "noon",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(OSLO),
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:00+00:00",
        "2024-05-01T14:00:00+02:00",
        "2024-05-01T12:00:00",
        "2024-05-01 12:00:00",
        " 2024-05-01T12:00 ",
        "2024-05-01T12:00:00.000000Z",
    ],
    ids=str,
)
def test_a_moment_is_the_same_however_it_is_written(calendar: HybridIndex, noon: Any) -> None:
    assert found(calendar, {"at": {"gte": noon, "lte": noon}}) == AT_NOON
    assert found(calendar, {"at": {"gt": noon}}) == set()
    assert found(calendar, {"at": {"lt": noon}}) == DAY | {"before", "noon among others"}


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process can't be set here")
def test_the_zone_of_the_machine_changes_nothing(calendar: HybridIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert found(calendar, {"at": NOON.replace(tzinfo=None)}) == AT_NOON
        assert found(calendar, {"at": date(2024, 5, 1)}) == DAY
        assert found(calendar, {"at": {"gte": "2024-05-01T12:00:00", "lte": "2024-05-01T12:00:00"}}) == AT_NOON
    time.tzset()


def test_a_date_is_its_first_moment_in_utc(calendar: HybridIndex) -> None:
    assert found(calendar, {"at": date(2024, 5, 1)}) == DAY
    assert found(calendar, {"at": {"gte": "2024-05-01", "lt": "2024-05-02"}}) == AT_NOON | DAY | {"before"}
    assert found(calendar, {"at": {"gt": date(2024, 5, 1), "lt": date(2024, 5, 2)}}) == AT_NOON | {"before"}


def test_datetimes_are_compared_as_moments_and_strings_as_strings(calendar: HybridIndex) -> None:
    assert found(calendar, {"at": NOON}) == AT_NOON
    assert found(calendar, {"at": [NOON, date(2024, 5, 1), "May 1st"]}) == AT_NOON | DAY | {"no date"}
    assert found(calendar, {"at": {"ne": NOON}}) == set(MOMENTS) - AT_NOON
    assert found(calendar, {"at": "2024-05-01"}) == DAY


def test_numbers_are_no_dates_and_dates_no_numbers(calendar: HybridIndex) -> None:
    assert found(calendar, {"at": {"gte": 0}}) == {"number"}
    assert "number" not in found(calendar, {"at": {"gte": "1900-01-01"}})


def test_a_field_of_dates_and_numbers_is_never_answered_from_the_wrong_index() -> None:
    """An index for one kind of range answers the other wrongly in the engine, so none is made unasked."""
    with HybridIndex.open(":memory:", dense=HashEmbedding()) as index:
        index.add(["number", "date"], ids=["number", "date"], metadatas=[{"at": 5}, {"at": "2024-05-01"}])
        for bound, expected in [({"gte": 0}, "number"), ({"gte": "2020-01-01"}, "date")] * 2:
            assert index.search("number date", filter={"at": bound}).ids == [expected]
            assert index.count({"at": bound}) == 1
        assert index.delete(filter={"at": {"gte": "2020-01-01"}}) == 1


@pytest.mark.parametrize(("kind", "bound"), [("float", "2020-01-01"), ("integer", "2020-01-01"), ("datetime", 0)])
def test_a_declared_index_of_the_other_kind_is_said_instead_of_misleading(kind: str, bound: object) -> None:
    settings = CollectionSettings(payload_indexes={"at": kind})
    with HybridIndex.open(":memory:", dense=HashEmbedding(), settings=settings) as index:
        index.add(["number", "date"], metadatas=[{"at": 5}, {"at": "2024-05-01"}])
        for use in (lambda f: index.search("x", filter=f), index.count, lambda f: index.delete(filter=f)):
            with pytest.raises(FilterError, match=f"index of kind {kind}"):
                use({"at": {"gte": bound}})
        assert index.count() == 2
