"""Steps of a random walk that compare both sides."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from qdrant_client import models

from tests.kit import corpus, oracle
from tests.kit.conditions import Condition
from tests.kit.corpus import PointId
from tests.kit.oracle import Scores, assert_ranking
from tests.kit.walk_state import State

ALL = 1000
# Closer scores could come in either order: an engine computes in 32 bits.
APART = 1e-5
FORMULA = models.FormulaQuery(
    formula=models.SumExpression(sum=["$score[0]", models.MultExpression(mult=[0.3, "$score[1]"])]),
    defaults={"$score[0]": -0.5, "$score[1]": 0.0},
)


class Checks(State):
    """Each asks the engine and goes through the dictionary."""

    def see_everything(self) -> None:
        records, following = self.call("scroll", limit=ALL, with_vectors=True)
        assert following is None
        assert {record.id: record.payload for record in records} == {p.id: p.payload for p in self.points.values()}
        assert {r.id: set(r.vector or ()) for r in records} == {p.id: set(p.vectors) for p in self.points.values()}
        for record in records:
            for name, vector in self.points[record.id].vectors.items():
                if name != "dense":
                    stored = dict(zip(record.vector[name].indices, record.vector[name].values, strict=True))
                    assert stored == pytest.approx(vector, abs=1e-6)
        assert self.call("count").count == len(self.points)

    def see_pages(self) -> None:
        condition, size = self.condition(), self.rng.randint(1, 9)
        seen: list[PointId] = []
        offset = None
        while True:
            records, offset = self.call("scroll", condition.filter, limit=size, offset=offset, with_payload=False)
            seen += [record.id for record in records]
            if offset is None:
                break
        assert sorted(seen, key=str) == sorted((point.id for point in self.chosen(condition)), key=str)

    def see_count(self) -> None:
        condition = self.condition()
        assert self.call("count", condition.filter, exact=True).count == len(self.chosen(condition))

    def see_retrieve(self) -> None:
        ids = self.some_ids()
        found = {record.id: record.payload for record in self.call("retrieve", ids)}
        assert found == {key: self.points[key].payload for key in ids if key in self.points}
        assert list(found) == [key for key in ids if key in self.points]

    def see_facet(self) -> None:
        if self.engine.indexes:
            self.call("create_payload_index", "metadata.kind", models.PayloadSchemaType.KEYWORD)
        hits = self.call("facet", "metadata.kind", limit=10, exact=True).hits
        kinds = [point.metadata["kind"] for point in self.points.values() if "metadata" in point.payload]
        # Qdrant's index remembers a value that no point has any more, and counts 0 of it.
        assert {hit.value: hit.count for hit in hits if hit.count} == {kind: kinds.count(kind) for kind in kinds}

    def see_dense(self) -> None:
        query, condition = corpus.dense(self.rng), self.maybe_condition()
        self._see_leg(query, "dense", oracle.cosine(self.chosen(condition), query), condition)

    def see_sparse(self) -> None:
        query, condition = corpus.sparse(self.rng, 4), self.maybe_condition()
        self._see_leg(corpus.to_sparse(query), "plain", oracle.dot(self.chosen(condition), query), condition)

    def see_idf(self) -> None:
        if self.untouched or self.engine.name == "local":
            query = corpus.sparse(self.rng, 4)
            found = self.call("query_points", corpus.to_sparse(query), using="bm25", limit=12).points
            assert_ranking(found, oracle.idf(list(self.points.values()), query), 12)

    def _see_leg(self, query: Any, using: str, expected: Scores, condition: Condition | None) -> None:
        limit, offset = self.rng.choice([3, 10, ALL]), self.rng.choice([0, 0, 4])
        threshold = self.rng.choice([None, None, 0.2])
        if threshold is not None and all(abs(score - threshold) > APART for score in expected.values()):
            expected = {key: score for key, score in expected.items() if score >= threshold}
        else:
            threshold = None
        options = {"using": using, "score_threshold": threshold, "query_filter": condition and condition.filter}
        found = self.call("query_points", query, limit=limit, offset=offset, **options).points
        assert_ranking(found, expected, limit, offset=offset)

    def see_fused(self) -> None:
        dense, sparse, condition = corpus.dense(self.rng), corpus.sparse(self.rng, 5), self.maybe_condition()
        points, depth = self.chosen(condition), self.rng.choice([5, 20, ALL])
        near, worded = oracle.cosine(points, dense), oracle.dot(points, sparse)
        if not (_apart(near) and _apart(worded)):
            return
        scores = [oracle.best(near, depth), oracle.best(worded, depth)]
        common: Any = {"limit": depth, "filter": condition and condition.filter}
        prefetch = [
            models.Prefetch(query=dense, using="dense", **common),
            models.Prefetch(query=corpus.to_sparse(sparse), using="plain", **common),
        ]
        queries: list[tuple[Any, dict[PointId, float]]] = [
            (models.RrfQuery(rrf=models.Rrf(k=61)), oracle.rrf(scores, 61)),
            (models.FusionQuery(fusion=models.Fusion.DBSF), oracle.dbsf(scores)),
            (
                FORMULA,
                {key: scores[0].get(key, -0.5) + 0.3 * scores[1].get(key, 0.0) for key in {**scores[0], **scores[1]}},
            ),
        ]
        requests = [models.QueryRequest(prefetch=prefetch, query=query, limit=15) for query, _ in queries]
        answers = self.call("query_batch_points", requests)
        for answer, (_, expected) in zip(answers, queries, strict=True):
            assert_ranking(answer.points, expected, 15)


def _apart(scores: Scores) -> bool:
    """Whether ranks, and a spread that is divided by, are beyond doubt."""
    ordered = sorted(scores.values())
    gaps = [high - low for low, high in pairwise(ordered)]
    return not gaps or (min(gaps) > APART and ordered[-1] - ordered[0] > 0.02)
