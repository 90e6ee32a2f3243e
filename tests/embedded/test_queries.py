"""Queries answer as qdrant-client's local mode does, score by score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from qdrant_client import models as m

from twofold.embedded import BadRequest, EmbeddedClient, NotFound

VECTOR = [0.3, -0.2, 0.9, 0.1]
WORDS = m.SparseVector(indices=[9, 3, 17], values=[0.5, 1.0, 0.25])
LEGS = [
    m.Prefetch(query=VECTOR, using="dense", limit=20),
    m.Prefetch(query=WORDS, using="words", limit=20),
]
FILTER = m.Filter(must=[m.FieldCondition(key="kind", match=m.MatchValue(value="film"))])
SCORES = m.SumExpression(sum=["$score[0]", m.MultExpression(mult=[0.1, "$score[1]"])])


def formula(expression: Any, **defaults: Any) -> dict[str, Any]:
    return {"prefetch": LEGS, "query": m.FormulaQuery(formula=expression, defaults=defaults)}


QUERIES: dict[str, dict[str, Any]] = {
    "dense": {"query": VECTOR, "using": "dense"},
    "sparse": {"query": WORDS, "using": "words"},
    "nearest": {"query": m.NearestQuery(nearest=VECTOR), "using": "dense"},
    "by id": {"query": 3, "using": "dense"},
    "by uuid": {"query": "00000000-0000-0000-0000-000000000005", "using": "words"},
    "filtered": {"query": VECTOR, "using": "dense", "query_filter": FILTER},
    "threshold": {"query": VECTOR, "using": "dense", "score_threshold": 0.5, "limit": 50},
    "page 2": {"query": VECTOR, "using": "dense", "offset": 10},
    "exact": {"query": VECTOR, "using": "dense", "search_params": m.SearchParams(exact=True, hnsw_ef=64)},
    "params as a dict": {"query": VECTOR, "using": "dense", "search_params": {"exact": True}},
    "dbsf": {"prefetch": LEGS, "query": m.FusionQuery(fusion=m.Fusion.DBSF)},
    "rescored": {"prefetch": LEGS[1], "query": VECTOR, "using": "dense"},
    "nested prefetch": {
        "prefetch": m.Prefetch(prefetch=LEGS, query=m.FusionQuery(fusion=m.Fusion.DBSF), limit=15),
        "query": VECTOR,
        "using": "dense",
    },
    "formula": formula(SCORES, **{"$score[0]": 0.0, "$score[1]": 0.0}),
    "formula, condition": formula(
        m.SumExpression(sum=[SCORES, m.MultExpression(mult=[0.5, FILTER.must[0]])]),  # type: ignore[index]
        **{"$score[0]": 0.1, "$score[1]": 0.2},
    ),
    "formula, arithmetic": formula(
        m.DivExpression(
            div=m.DivParams(
                left=m.ExpExpression(exp=m.NegExpression(neg=m.AbsExpression(abs="price"))),
                right=m.SqrtExpression(
                    sqrt=m.SumExpression(sum=[1.0, m.PowExpression(pow=m.PowParams(base="price", exponent=2.0))])
                ),
                by_zero_default=0.0,
            )
        )
    ),
    "formula, decay": formula(
        m.ExpDecayExpression(
            exp_decay=m.DecayParamsExpression(
                x=m.DatetimeKeyExpression(datetime_key="when"),
                target=m.DatetimeExpression(datetime="2024-02-01T00:00:00Z"),
                scale=86400.0 * 10,
                midpoint=0.5,
            )
        )
    ),
    "formula, largest": formula(m.MaxExpression(max=["price", 3.0])),
    "recommend": {
        "query": m.RecommendQuery(recommend=m.RecommendInput(positive=[1, 3], negative=[5])),
        "using": "dense",
    },
    "recommend best": {
        "query": m.RecommendQuery(
            recommend=m.RecommendInput(positive=[VECTOR, 3], negative=[5], strategy=m.RecommendStrategy.BEST_SCORE)
        ),
        "using": "dense",
    },
    "recommend sum": {
        "query": m.RecommendQuery(
            recommend=m.RecommendInput(positive=[1], negative=[5], strategy=m.RecommendStrategy.SUM_SCORES)
        ),
        "using": "dense",
    },
    "recommend sparse": {
        "query": m.RecommendQuery(recommend=m.RecommendInput(positive=[1, WORDS])),
        "using": "words",
    },
    "discover": {
        "query": m.DiscoverQuery(
            discover=m.DiscoverInput(target=VECTOR, context=[m.ContextPair(positive=1, negative=5)])
        ),
        "using": "dense",
    },
    "context": {"query": m.ContextQuery(context=[m.ContextPair(positive=1, negative=5)]), "using": "dense"},
    "mmr": {
        "query": m.NearestQuery(nearest=VECTOR, mmr=m.Mmr(diversity=0.3, candidates_limit=30)),
        "using": "dense",
    },
    "feedback": {
        "query": m.RelevanceFeedbackQuery(
            relevance_feedback=m.RelevanceFeedbackInput(
                target=VECTOR,
                feedback=[m.FeedbackItem(example=1, score=0.9), m.FeedbackItem(example=5, score=0.1)],
                strategy=m.NaiveFeedbackStrategy(naive=m.NaiveFeedbackStrategyParams(a=0.5, b=0.5, c=0.5)),
            )
        ),
        "using": "dense",
    },
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_points_with_the_same_scores(pair: Any, name: str) -> None:
    ours, local = (client.query_points("notes", **QUERIES[name]).points for client in pair)
    assert [p.score for p in ours] == pytest.approx([p.score for p in local], abs=1e-4)
    last = ours[-1].score
    assert {str(p.id) for p in ours if p.score > last + 1e-4} == {str(p.id) for p in local if p.score > last + 1e-4}
    by_id = {p.id: p.payload for p in local}
    assert all(p.payload == by_id[p.id] for p in ours if p.id in by_id)


def test_rrf_by_its_formula(notes: Any) -> None:
    legs = [notes.query_points("notes", leg.query, using=leg.using, limit=leg.limit).points for leg in LEGS]
    for k, weights in ((2, [1.0, 1.0]), (61, [1.0, 1.0]), (10, [3.0, 0.5])):
        expected: dict[Any, float] = {}
        for leg, weight in zip(legs, weights, strict=True):
            for position, point in enumerate(leg):
                share = 1 / ((position + 1) / weight + k - 1)
                expected[point.id] = expected.get(point.id, 0) + share
        query = m.RrfQuery(rrf=m.Rrf(k=k, weights=None if weights == [1.0, 1.0] else weights))
        found = notes.query_points("notes", prefetch=LEGS, query=query, limit=100).points
        assert {p.id: p.score for p in found} == pytest.approx(expected, abs=1e-5)


def test_fusion_defaults_to_k_2(notes: Any) -> None:
    plain = notes.query_points("notes", prefetch=LEGS, query=m.FusionQuery(fusion=m.Fusion.RRF), limit=100)
    spelt = notes.query_points("notes", prefetch=LEGS, query=m.RrfQuery(rrf=m.Rrf(k=2)), limit=100)
    assert {p.id: p.score for p in plain.points} == {p.id: p.score for p in spelt.points}


def test_text_query_ranks_by_bm25(notes: Any) -> None:
    schema = m.TextIndexParams(type=m.TextIndexType.TEXT, tokenizer=m.TokenizerType.WORD, scoring=True)
    notes.create_payload_index("notes", "text", schema)
    for text in (
        "fox 17",
        m.TextQueryInput(query="fox 17", scoring=m.Bm25Scoring(bm25=m.Bm25Params(k=1.0, b=0.5))),
    ):
        best = notes.query_points("notes", m.TextQuery(text=text), using="text", limit=3).points[0]
        assert best.payload["n"] == 17
    with pytest.raises(BadRequest, match="using"):
        notes.query_points("notes", m.TextQuery(text="fox"))


def test_order_by_and_sample(notes: Any) -> None:
    order = m.OrderByQuery(order_by=m.OrderBy(key="n", direction=m.Direction.DESC))
    assert [p.payload["n"] for p in notes.query_points("notes", order, limit=3).points] == [59, 58, 57]
    sample = notes.query_points("notes", m.SampleQuery(sample=m.Sample.RANDOM), limit=60).points
    assert len({p.id for p in sample}) == 60
    sample = notes.query_points("notes", m.SampleQuery(sample=m.Sample.RANDOM), limit=60, offset=10).points
    assert len(sample) == 60  # nothing to skip: its order means nothing


def test_scroll_in_order(notes: Any) -> None:
    records, following = notes.scroll("notes", order_by=m.OrderBy(key="when", direction=m.Direction.DESC), limit=2)
    assert [r.payload["n"] for r in records] == [59, 58]
    assert following is None
    records, _ = notes.scroll("notes", order_by=m.OrderBy(key="n", start_from=30), limit=2)
    assert [r.payload["n"] for r in records] == [30, 31]
    assert [r.payload["n"] for r in notes.scroll("notes", order_by="price", limit=2)[0]] == [0, 1]
    with pytest.raises(BadRequest, match="offset"):
        notes.scroll("notes", order_by="n", offset=3)
    with pytest.raises(BadRequest, match="range index"):
        notes.scroll("notes", order_by="text")


def test_scroll_pages_through_everything(notes: Any) -> None:
    seen, offset = [], None
    while True:
        records, offset = notes.scroll("notes", limit=7, offset=offset, with_payload=["n"])
        seen += [record.payload["n"] for record in records]
        if offset is None:
            break
    assert sorted(seen) == list(range(60))


def test_batch_equals_single_queries(notes: Any) -> None:
    asked = [
        m.QueryRequest(prefetch=LEGS, query=m.FusionQuery(fusion=m.Fusion.DBSF), limit=5, with_payload=True),
        m.QueryRequest(query=VECTOR, using="dense", limit=3, filter=FILTER),
        m.QueryRequest(query=3, using="dense", limit=2, with_vector=["dense"]),
    ]
    fused, filtered, by_id = notes.query_batch_points("notes", asked)
    single = notes.query_points("notes", prefetch=LEGS, query=m.FusionQuery(fusion=m.Fusion.DBSF), limit=5)
    assert [p.score for p in fused.points] == [p.score for p in single.points]
    assert all(p.payload is None for p in filtered.points)
    assert all(set(p.vector) == {"dense"} for p in by_id.points)
    assert asked[1].query == VECTOR  # what the caller passed stays as it was
    assert notes.query_batch_points("notes", []) == []


def test_choices_of_payload_and_vectors(notes: Any) -> None:
    def one(**choice: Any) -> m.ScoredPoint:
        point: m.ScoredPoint = notes.query_points("notes", VECTOR, using="dense", limit=1, **choice).points[0]
        return point

    assert one(with_payload=False).payload is None
    assert set(one(with_payload=["n", "kind"]).payload or {}) == {"n", "kind"}
    assert set(one(with_payload=m.PayloadSelectorInclude(include=["n"])).payload or {}) == {"n"}
    assert "n" not in (one(with_payload=m.PayloadSelectorExclude(exclude=["n"])).payload or {})
    assert one().vector is None
    assert isinstance(one(with_vectors=True).vector, dict)
    with pytest.raises(BadRequest, match="'other'"):
        one(with_vectors=["other"])


def test_mmr_gives_no_vectors_that_nobody_asked_for(notes: Any) -> None:
    query = m.NearestQuery(nearest=VECTOR, mmr=m.Mmr(diversity=0.3))
    for asked, names in ((False, None), (["words"], ["words"]), (True, ["dense", "words"])):
        for point in notes.query_points("notes", query, using="dense", limit=3, with_vectors=asked).points:
            assert (point.vector and sorted(point.vector)) == names
    with pytest.raises(NotImplementedError, match="dense"):
        notes.query_points("notes", m.NearestQuery(nearest=WORDS, mmr=m.Mmr()), using="words")


def test_lookup_from_another_collection(notes: Any) -> None:
    notes.create_collection("other", m.VectorParams(size=4, distance=m.Distance.DOT))
    notes.upsert("other", [m.PointStruct(id=1000, vector=VECTOR)])
    lookup = m.LookupLocation(collection="other", vector="")
    found = notes.query_points("notes", 1000, using="dense", lookup_from=lookup, limit=4).points
    direct = notes.query_points("notes", VECTOR, using="dense", limit=4).points
    assert [p.id for p in found] == [p.id for p in direct]
    with pytest.raises(NotFound, match="1000"):
        notes.query_points("notes", 1000, using="dense")


def test_a_point_without_the_vector_is_no_example(notes: Any) -> None:
    with pytest.raises(BadRequest, match="no vector 'words'"):
        notes.query_points("notes", 9, using="words")


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"query": [1.0, 2.0], "using": "dense"}, "expected dim: 4, got 2"),
        ({"query": VECTOR}, "pass using="),
        ({"query": VECTOR, "using": "nope"}, "nope"),
        ({"query": WORDS, "using": "dense"}, "list of numbers"),
        ({"query": VECTOR, "using": "words"}, "SparseVector"),
        ({"query": [float("nan")] * 4, "using": "dense"}, "NaN"),
        ({"query": VECTOR, "using": "dense", "limit": 0}, "limit"),
        ({"query": VECTOR, "using": "dense", "offset": -1}, "offset"),
        ({"prefetch": LEGS}, "query is needed"),
        ({"query": m.FusionQuery(fusion=m.Fusion.RRF)}, "prefetch"),
        ({"prefetch": LEGS, "query": m.RrfQuery(rrf=m.Rrf(weights=[1.0]))}, "one weight"),
        ({"prefetch": LEGS, "query": m.RrfQuery(rrf=m.Rrf(k=0))}, "rrf k"),
        ({"score_threshold": 0.5}, "scores"),
        ({"query": 1, "using": "dense", "shard_key_selector": "a"}, "shard keys"),
    ],
)
def test_wrong_queries_say_why(notes: Any, asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises((BadRequest, NotImplementedError), match=complaint):
        notes.query_points("notes", **asked)


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("number", [NAN, INFINITE])
def test_numbers_that_are_none_are_refused(notes: Any, number: float) -> None:
    query, legs = [1.0, 0, 0, 0], [m.Prefetch(query=[1.0, 0, 0, 0], using="dense")]
    beyond = m.Filter(must=[m.FieldCondition(key="n", range=m.Range(gte=number))])
    weighted = m.RrfQuery(rrf=m.Rrf(k=2, weights=[number]))
    floor = m.Prefetch(query=query, using="dense", score_threshold=number)
    calls: list[Callable[[], Any]] = [
        lambda: notes.scroll("notes", order_by=m.OrderBy(key="n", start_from=number)),
        lambda: notes.query_points("notes", m.OrderByQuery(order_by=m.OrderBy(key="n", start_from=number))),
        lambda: notes.count("notes", beyond),
        lambda: notes.query_points("notes", query, using="dense", query_filter=beyond),
        lambda: notes.query_points("notes", query, using="dense", score_threshold=number),
        lambda: notes.query_points("notes", m.FusionQuery(fusion=m.Fusion.RRF), prefetch=[floor]),
        lambda: notes.query_points("notes", weighted, prefetch=legs),
    ]
    for call in calls:
        with pytest.raises(BadRequest, match=f"{number}.*finite"):
            call()


def test_groups(pair: Any) -> None:
    for asked in (
        {"query": VECTOR, "using": "dense"},
        {"prefetch": LEGS, "query": m.FusionQuery(fusion=m.Fusion.DBSF)},
    ):
        ours, local = (
            client.query_points_groups("notes", "kind", limit=2, group_size=2, with_payload=["n"], **asked).groups
            for client in pair
        )
        assert [g.id for g in ours] == [g.id for g in local]
        if "prefetch" not in asked:  # local mode widens prefetches to the whole collection
            assert [[h.id for h in g.hits] for g in ours] == [[h.id for h in g.hits] for g in local]
        assert all(set(h.payload or {}) == {"n"} for g in ours for h in g.hits)


@pytest.mark.parametrize("path", ['o."x y"', '"p q".z', "l[0].k", "l[].k", "o.n[]"])
def test_groups_by_any_path(client: Any, path: str) -> None:
    client.create_collection("g", {})
    held = {"o": {"x y": "a", "n": ["a"]}, "p q": {"z": "a"}, "l": [{"k": "a"}]}
    client.upsert("g", [m.PointStruct(id=1, vector={}, payload=held)])
    answer = client.query_points_groups("g", group_by=path)
    assert [group.id for group in answer.groups] == ["a"]


def test_groups_by_a_list_with_lookup(notes: Any) -> None:
    notes.create_collection("parts", {})
    notes.upsert("parts", [m.PointStruct(id=13, vector={}, payload={"title": "thirteen"})])
    found = notes.query_points_groups(
        "notes", "parts[].size", query=VECTOR, using="dense", limit=61, group_size=1, with_lookup="parts"
    ).groups
    by_id = {group.id: group for group in found}
    assert set(by_id) == set(range(61))
    assert by_id[13].lookup.payload == {"title": "thirteen"}
    assert by_id[14].lookup is None


def test_facet_counts(notes: Any) -> None:
    hits = notes.facet(
        "notes", "kind", facet_filter=m.Filter(must=[m.FieldCondition(key="n", range=m.Range(lt=10))])
    ).hits
    assert {hit.value: hit.count for hit in hits} == {"note": 4, "film": 3, "link": 3}
    for _ in range(3):  # an estimate would leave values out
        answer = notes.facet("notes", "kind", limit=2, exact=False).hits
        assert answer == notes.facet("notes", "kind", limit=2, exact=True).hits
    with pytest.raises(BadRequest, match="index"):
        notes.facet("notes", "text")


def test_how_near_points_are_to_each_other(pair: Any) -> None:
    embedded, local = pair
    asked = {"collection_name": "notes", "query_filter": FILTER, "sample": 60, "limit": 3, "using": "dense"}
    ours, theirs = (client.search_matrix_pairs(**asked).pairs for client in (embedded, local))
    assert [(each.a, each.b) for each in ours] == [(each.a, each.b) for each in theirs]
    assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-5)
    offsets, others = (client.search_matrix_offsets(**asked) for client in (embedded, local))
    assert (offsets.ids, offsets.offsets_row) == (others.ids, others.offsets_row)
    assert offsets.offsets_col == others.offsets_col
    assert embedded.search_matrix_pairs("notes", sample=2, using="dense", query_filter=m.Filter(
        must=[m.HasIdCondition(has_id=[3])])).pairs == []  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("price", "a number at 'price'"),
        (m.SumExpression(sum=["$score", "kind"]), "a number at 'kind'"),
        (m.DatetimeKeyExpression(datetime_key="kind"), "a datetime at 'kind'"),
        (m.LnExpression(ln=-1.0), "non-finite"),
        (m.DivExpression(div=m.DivParams(left="n", right=0.0)), "non-finite"),
    ],
    ids=repr,
)
def test_a_formula_that_cannot_be_computed_says_what_is_wrong(notes: Any, expression: Any, complaint: str) -> None:
    notes.delete_payload("notes", ["price"], [3])
    with pytest.raises(BadRequest, match=complaint):
        notes.query_points("notes", **formula(expression))
    request = m.QueryRequest(prefetch=LEGS, query=m.FormulaQuery(formula=expression), limit=60)
    with pytest.raises(BadRequest, match=complaint):
        notes.query_batch_points("notes", [m.QueryRequest(query=VECTOR, using="dense"), request])


def test_retrieve(notes: Any) -> None:
    records = notes.retrieve("notes", [1, 1, "00000000-0000-0000-0000-000000000001", 777], with_vectors=True)
    assert sorted(str(r.id) for r in records) == ["00000000-0000-0000-0000-000000000001", "1"]
    assert all(set(r.vector) == {"dense", "words"} for r in records)
    assert notes.retrieve("notes", [1], with_payload=False)[0].payload is None
    assert notes.retrieve("notes", []) == []


def test_a_formula_of_ones_own_may_change(client: EmbeddedClient) -> None:
    """It is converted anew each time: only the formulas of an index never change."""
    client.create_collection("f", m.VectorParams(size=2, distance=m.Distance.DOT))
    client.upsert("f", [m.PointStruct(id=1, vector=[1.0, 0.0])])
    query = m.FormulaQuery(formula=m.MultExpression(mult=["$score", 2.0]))
    leg = m.Prefetch(query=[1.0, 0.0])
    assert client.query_points("f", query=query, prefetch=leg).points[0].score == 2
    query.formula = m.MultExpression(mult=["$score", 5.0])
    assert client.query_points("f", query=query, prefetch=leg).points[0].score == 5
