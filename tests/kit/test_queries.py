"""Searches, against scores computed by going through every point."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from tests.kit import corpus, oracle
from tests.kit.conftest import Shelf
from tests.kit.corpus import PointId
from tests.kit.engines import Engine, needs, refused
from tests.kit.oracle import assert_ranking
from tests.kit.test_points import FILMS, films
from twofold.encoders.base import Sparse
from twofold.engine.client import to_requests
from twofold.engine.requests import FusedQuery, VectorQuery
from twofold.ranking.fusion import Auto, Dbsf

SEEDS = range(3)


def questions(seed: int) -> tuple[list[float], corpus.Sparse]:
    rng = random.Random(1000 + seed)
    return corpus.dense(rng), corpus.sparse(rng, 6)


def ask(shelf: Shelf, query: Any = None, **options: Any) -> list[Any]:
    found: list[Any] = shelf.engine.query_points(shelf.name, query, **options).points
    return found


def legs(
    dense: list[float], sparse: corpus.Sparse, limits: tuple[int, int], using: str = "bm25", **more: Any
) -> list[models.Prefetch]:
    return [
        models.Prefetch(query=dense, using="dense", limit=limits[0], **more),
        models.Prefetch(query=corpus.to_sparse(sparse), using=using, limit=limits[1], **more),
    ]


def leg_scores(
    shelf: Shelf, dense: list[float], sparse: corpus.Sparse, limits: tuple[int, int]
) -> list[dict[PointId, float]]:
    return [
        oracle.best(oracle.cosine(shelf.points, dense), limits[0]),
        oracle.best(oracle.idf(shelf.points, sparse), limits[1]),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_dense_scores_are_cosines(library: Shelf, seed: int) -> None:
    dense, _ = questions(seed)
    assert_ranking(ask(library, dense, using="dense", limit=20), oracle.cosine(library.points, dense), 20, 1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_scores_are_dot_products(library: Shelf, seed: int) -> None:
    _, sparse = questions(seed)
    found = ask(library, corpus.to_sparse(sparse), using="plain", limit=100)
    assert_ranking(found, oracle.dot(library.points, sparse), 100, 1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_scores_with_idf(library: Shelf, seed: int) -> None:
    _, sparse = questions(seed)
    found = ask(library, corpus.to_sparse(sparse), using="bm25", limit=15)
    assert_ranking(found, oracle.idf(library.points, sparse), 15)


def test_idf_ignores_the_filter(library: Shelf) -> None:
    _, sparse = questions(4)
    found = ask(library, corpus.to_sparse(sparse), using="bm25", query_filter=FILMS, limit=100)
    kept = {point.id for point in films(library)}
    assert_ranking(found, {k: v for k, v in oracle.idf(library.points, sparse).items() if k in kept}, 100)


def test_points_without_the_vector_are_not_found(library: Shelf) -> None:
    dense, sparse = questions(0)
    by_meaning = {each.id for each in ask(library, dense, using="dense", limit=100)}
    by_words = {each.id for each in ask(library, corpus.to_sparse(sparse), using="plain", limit=100)}
    assert by_meaning == {point.id for point in library.points if "dense" in point.vectors}
    assert not by_words & {point.id for point in library.points if "plain" not in point.vectors}


def test_unknown_terms_find_nothing(library: Shelf) -> None:
    assert ask(library, corpus.to_sparse({999: 1.0}), using="bm25") == []
    assert ask(library, corpus.to_sparse({}), using="bm25") == []


def test_ten_points_unless_told(library: Shelf) -> None:
    assert len(ask(library, questions(0)[0], using="dense")) == 10


def test_pages_join_up(library: Shelf) -> None:
    dense, _ = questions(1)
    pages = [ask(library, dense, using="dense", limit=7, offset=start) for start in range(0, 63, 7)]
    assert_ranking([point for page in pages for point in page], oracle.cosine(library.points, dense), 100, 1e-5)
    assert ask(library, dense, using="dense", limit=7, offset=1000) == []


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.35, 2.0])
def test_score_threshold(library: Shelf, threshold: float) -> None:
    dense, _ = questions(2)
    expected = {k: v for k, v in oracle.cosine(library.points, dense).items() if v >= threshold}
    assert_ranking(ask(library, dense, using="dense", score_threshold=threshold, limit=100), expected, 100, 1e-5)


def test_a_point_as_the_query_leaves_itself_out(library: Shelf) -> None:
    point = library.points[0]
    expected = oracle.cosine(library.points, point.vectors["dense"])
    del expected[point.id]
    assert_ranking(ask(library, point.id, using="dense", limit=12), expected, 12, 1e-5)


def test_vectors_come_along_when_asked_for(library: Shelf) -> None:
    found = ask(library, library.points[0].vectors["dense"], using="dense", limit=1, with_vectors=["bm25"])[0]
    assert set(found.vector) == {"bm25"}
    assert ask(library, questions(0)[0], using="dense", limit=1)[0].vector is None


def test_without_a_query_points_come_by_id(library: Shelf) -> None:
    scrolled = [record.id for record in library.engine.scroll(library.name, limit=8)[0]]
    assert [each.id for each in ask(library, limit=8)] == scrolled


def test_order_by_as_a_query(library: Shelf) -> None:
    order = models.OrderByQuery(order_by=models.OrderBy(key="metadata.rank", direction=models.Direction.DESC))
    assert [each.payload["metadata"]["rank"] for each in ask(library, order, limit=5)] == [59, 58, 57, 56, 55]


def test_groups_hold_the_best_of_each(library: Shelf) -> None:
    dense, _ = questions(3)
    answer = library.engine.query_points_groups(
        library.name, group_by="metadata.kind", query=dense, using="dense", limit=3, group_size=2
    )
    scores = oracle.cosine(library.points, dense)
    kinds = {point.id: point.metadata["kind"] for point in library.points}
    assert {group.id for group in answer.groups} == set(corpus.KINDS)
    for group in answer.groups:
        own = {key: score for key, score in scores.items() if kinds[key] == group.id}
        assert_ranking(group.hits, own, 2, 1e-5)


@pytest.mark.parametrize("diversity", [0.0, 0.4, 1.0])
def test_diversity_by_marginal_relevance(library: Shelf, diversity: float) -> None:
    dense, _ = questions(4)
    mmr = models.NearestQuery(nearest=dense, mmr=models.Mmr(diversity=diversity, candidates_limit=20))
    by_id = {point.id: point for point in library.points}
    pool = oracle.best(oracle.cosine(library.points, dense), 20)
    between = {key: oracle.cosine([by_id[other] for other in pool], by_id[key].vectors["dense"]) for key in pool}
    expected = oracle.marginal(pool, between, diversity, 8)
    assert [each.id for each in ask(library, mmr, using="dense", limit=8)] == expected


@pytest.mark.parametrize("limits", [(60, 60), (10, 10), (25, 8)], ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_reciprocal_ranks(library: Shelf, seed: int, limits: tuple[int, int]) -> None:
    dense, sparse = questions(seed)
    found = ask(library, models.RrfQuery(rrf=models.Rrf(k=61)), prefetch=legs(dense, sparse, limits), limit=100)
    assert_ranking(found, oracle.rrf(leg_scores(library, dense, sparse, limits), 61), 100, 1e-6)


def test_plain_rrf_means_k_2(library: Shelf) -> None:
    dense, sparse = questions(5)
    found = ask(library, models.FusionQuery(fusion=models.Fusion.RRF), prefetch=legs(dense, sparse, (20, 20)), limit=9)
    assert_ranking(found, oracle.rrf(leg_scores(library, dense, sparse, (20, 20)), 2), 9, 1e-6)


@pytest.mark.parametrize("limits", [(60, 60), (10, 10), (25, 1)], ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_distribution_based_fusion(library: Shelf, seed: int, limits: tuple[int, int]) -> None:
    dense, sparse = questions(seed)
    found = ask(library, models.FusionQuery(fusion=models.Fusion.DBSF), prefetch=legs(dense, sparse, limits), limit=100)
    assert_ranking(found, oracle.dbsf(leg_scores(library, dense, sparse, limits)), 100)


def test_fusion_of_nothing_and_of_one(library: Shelf) -> None:
    dense, _ = questions(0)
    for fusion in (models.Fusion.RRF, models.Fusion.DBSF):
        query = models.FusionQuery(fusion=fusion)
        assert ask(library, query, prefetch=legs(dense, {999: 1.0}, (60, 60), filter=_NOTHING)) == []
        found = ask(library, query, prefetch=legs(dense, {999: 1.0}, (1, 60)))
        assert_ranking(found, dict.fromkeys([each.id for each in found], 0.5), 1)
        assert len(found) == 1


_NOTHING = models.Filter(must=[models.HasIdCondition(has_id=[])])


def test_a_filter_in_the_prefetch_and_one_at_the_root(library: Shelf) -> None:
    dense, sparse = questions(1)
    query = models.RrfQuery(rrf=models.Rrf(k=61))
    inner = ask(library, query, prefetch=legs(dense, sparse, (60, 60), filter=FILMS), limit=100)
    outer = ask(library, query, prefetch=legs(dense, sparse, (60, 60)), query_filter=FILMS, limit=100)
    kept = {point.id for point in films(library)}
    assert {each.id for each in inner} <= kept
    # A filter at the root reaches down into every leg, before its limit.
    scores = [{k: v for k, v in leg.items() if k in kept} for leg in leg_scores(library, dense, sparse, (60, 60))]
    assert_ranking(inner, oracle.rrf(scores, 61), 100, 1e-6)
    assert_ranking(outer, oracle.rrf(scores, 61), 100, 1e-6)


def test_nested_prefetch_rescores_the_pool(library: Shelf) -> None:
    dense, sparse = questions(2)
    pool = legs(dense, sparse, (8, 8))
    first, second = leg_scores(library, dense, sparse, (8, 8))
    inside = set(first) | set(second)
    found = ask(library, dense, using="dense", prefetch=pool, limit=100)
    cosines = {k: v for k, v in oracle.cosine(library.points, dense).items() if k in inside}
    assert_ranking(found, cosines, 100, 1e-5)


def test_a_formula_over_two_rescored_pools(library: Shelf) -> None:
    """Every candidate of either leg gets both scores: prefetches inside prefetches, and a formula over them."""
    dense, sparse = questions(6)
    pool = legs(dense, sparse, (7, 7))
    outer = [
        models.Prefetch(prefetch=pool, query=dense, using="dense", limit=14),
        models.Prefetch(prefetch=pool, query=corpus.to_sparse(sparse), using="bm25", limit=14),
    ]
    formula = models.FormulaQuery(
        formula=models.SumExpression(sum=["$score[0]", models.MultExpression(mult=[0.5, "$score[1]"])]),
        defaults={"$score[0]": -1.0, "$score[1]": 0.0},
    )
    first, second = leg_scores(library, dense, sparse, (7, 7))
    cosines, words = oracle.cosine(library.points, dense), oracle.idf(library.points, sparse)
    expected = {key: cosines.get(key, -1.0) + 0.5 * words.get(key, 0.0) for key in {**first, **second}}
    assert_ranking(ask(library, formula, prefetch=outer, limit=100), expected, 100)


AUTO = Auto((0.3, 0.7), mean=0.1, spread=0.2, unit=0.25, words=0.4)
FUSIONS = {"auto": AUTO, "dbsf": Dbsf()}


def fused_scores(fusion: str, near: oracle.Scores, worded: oracle.Scores, terms: int) -> dict[PointId, float]:
    if fusion == "dbsf":
        return oracle.dbsf([near, worded])
    scores = {}
    for key in {**near, **worded}:
        meaning = (near[key] - 0.1) / 0.25 if key in near else 0.0
        bm25 = worded.get(key, 0.0)
        scores[key] = 0.3 * meaning + 0.7 * 0.4 * (0.2 / 0.25) * bm25 / terms**0.5
    return scores


@pytest.mark.parametrize("depth", [6, 60])
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_requests_of_the_index(library: Shelf, seed: int, fusion: str, depth: int) -> None:
    """A fused request with its legs, in one batch, as a search sends them."""
    dense, sparse = questions(seed)
    words = Sparse(tuple(sparse), tuple(sparse.values()))
    legs = (VectorQuery(np.array(dense, dtype=np.float32), depth), VectorQuery(words, depth))
    native = FUSIONS[fusion].native(("dense", "lexical"), words.terms)
    assert native is not None
    batch = to_requests([FusedQuery(legs, native, 100), *legs])
    fused, near, worded = library.engine.query_batch_points(library.name, batch)
    first, second = leg_scores(library, dense, sparse, (depth, depth))
    assert_ranking(near.points, first, depth)
    assert_ranking(worded.points, second, depth)
    assert_ranking(fused.points, fused_scores(fusion, first, second, len(sparse)), 100)
    assert all(point.payload["id"].startswith("doc-") for point in fused.points)
    assert not any(point.payload for point in near.points)


def test_a_formula_with_boosts(library: Shelf) -> None:
    dense, _ = questions(0)
    film = models.FieldCondition(key="metadata.kind", match=models.MatchValue(value="film"))
    formula = models.FormulaQuery(
        formula=models.SumExpression(
            sum=[
                "$score",
                models.MultExpression(mult=[0.25, film]),
                models.MultExpression(mult=[0.01, "metadata.rank"]),
            ]
        )
    )
    found = ask(library, formula, prefetch=models.Prefetch(query=dense, using="dense", limit=100), limit=10)
    by_id = {point.id: point for point in library.points}
    expected = {
        key: score + 0.25 * (by_id[key].metadata["kind"] == "film") + 0.01 * by_id[key].metadata["rank"]
        for key, score in oracle.cosine(library.points, dense).items()
    }
    assert_ranking(found, expected, 10)


def test_a_batch_answers_each_in_its_place(library: Shelf) -> None:
    dense, sparse = questions(3)
    requests = [
        models.QueryRequest(query=dense, using="dense", limit=3, with_payload=["text"]),
        models.QueryRequest(query=corpus.to_sparse(sparse), using="bm25", limit=4, filter=FILMS),
        models.QueryRequest(query=dense, using="dense", limit=5, offset=2, score_threshold=0.1),
    ]
    answers = [answer.points for answer in library.engine.query_batch_points(library.name, requests)]
    assert_ranking(answers[0], oracle.cosine(library.points, dense), 3, 1e-5)
    assert set(answers[0][0].payload) == {"text"}
    assert {each.id for each in answers[1]} <= {point.id for point in films(library)}
    assert [each.id for each in answers[2][:1]] == [answers[0][2].id]
    assert not answers[1][0].payload


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": [0.1, 0.2], "using": "dense"},
        {"query": [0.1] * corpus.SIZE, "using": "nobody"},
        {"query": models.FusionQuery(fusion=models.Fusion.RRF)},
    ],
    ids=["size", "name", "fusion of nothing"],
)
def test_a_bad_query_is_refused(library: Shelf, arguments: Any) -> None:
    with refused(400):
        ask(library, **arguments)


TEXTS = {1: "river and stone", 2: "a river, a winter, a long way", 3: "paper", 4: "Stone upon stone"}


@pytest.fixture(scope="session")
def scored(engine: Engine) -> Shelf:
    """Texts under an index that ranks."""
    needs(engine.name, 1, 20)
    name = engine.new_collection(vectors_config={}, shard_number=1)
    ranks = models.TextIndexParams(
        type=models.TextIndexType.TEXT, tokenizer=models.TokenizerType.WORD, lowercase=True, scoring=True
    )
    engine.create_payload_index(name, "text", ranks)
    rows = [models.PointStruct(id=n, vector={}, payload={"text": text, "n": n}) for n, text in TEXTS.items()]
    engine.upsert(name, rows)
    return Shelf(engine, name, [])


def test_text_queries_rank_by_bm25(scored: Shelf) -> None:
    found = ask(scored, models.TextQuery(text="river stone"), using="text")
    assert [point.id for point in found] == [1, 4, 2]
    assert [point.score for point in found] == sorted((point.score for point in found), reverse=True)
    assert ask(scored, models.TextQuery(text="nowhere"), using="text") == []


def test_text_queries_take_parameters_and_filters(scored: Shelf) -> None:
    flat = models.Bm25Scoring(bm25=models.Bm25Params(k=0.0, b=0.0))
    asked = models.TextQuery(text=models.TextQueryInput(query="stone", scoring=flat))
    once, twice = ask(scored, asked, using="text")
    assert once.score == pytest.approx(twice.score)  # with k = 0 a word counts once
    only = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(gt=1))])
    assert [p.id for p in ask(scored, models.TextQuery(text="stone"), using="text", query_filter=only)] == [4]


def test_text_queries_are_fused_like_others(scored: Shelf) -> None:
    words = [models.Prefetch(query=models.TextQuery(text=text), using="text") for text in ("stone", "river stone")]
    found = ask(scored, models.FusionQuery(fusion=models.Fusion.RRF), prefetch=words)
    assert {point.id for point in found} == {1, 2, 4}
