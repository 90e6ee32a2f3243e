"""Steps of a random walk that change both sides."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from tests.kit import corpus
from tests.kit.corpus import Point
from tests.kit.walk_state import State


class Changes(State):
    """Each sends a write until it is acknowledged, then does the same to the dictionary."""

    def do_upsert(self) -> None:
        points = [Point(key, self.vectors(), self.payload()) for key in self.some_ids(8)]
        self.untouched = self.untouched and not any(point.id in self.points for point in points)
        self.call("upsert", [point.struct() for point in points])
        self.points.update({point.id: point for point in points})

    def do_upsert_columns(self) -> None:
        points = [Point(key, {"dense": corpus.dense(self.rng)}, self.payload()) for key in self.some_ids(4)]
        self.untouched = self.untouched and not any(point.id in self.points for point in points)
        columns: Any = {"dense": [point.vectors["dense"] for point in points]}
        payloads = [point.payload for point in points]
        self.call("upsert", models.Batch(ids=[point.id for point in points], vectors=columns, payloads=payloads))
        self.points.update({point.id: point for point in points})

    def do_delete(self) -> None:
        ids = self.some_ids()
        self.call("delete", ids)
        for key in ids:
            self.untouched = self.points.pop(key, None) is None and self.untouched

    def do_delete_by_filter(self) -> None:
        condition = self.condition()
        gone = self.chosen(condition)
        if len(gone) < 15:
            self.call("delete", models.FilterSelector(filter=condition.filter))
            self.untouched = self.untouched and not gone
            for point in gone:
                del self.points[point.id]

    def do_set_payload(self) -> None:
        selector, points = self.selection()
        change = {key: value for key, value in self.payload().items() if self.rng.random() < 0.7}
        if not all(point.payload for point in points):
            # A null takes a field away, but Qdrant keeps it where the payload had been cleared.
            change = {key: value for key, value in change.items() if value is not None}
        if points and change:
            self.call("set_payload", change, selector)
            gone = {key for key, value in change.items() if value is None}
            for point in points:
                merged = {**point.payload, **change}
                point.payload = {key: value for key, value in merged.items() if key not in gone}

    def do_set_payload_under_a_key(self) -> None:
        selector, points = self.selection()
        points = [point for point in points if "metadata" in point.payload]
        if points and isinstance(selector, list):
            change = {"n": self.rng.randint(0, 9), "extra": {"z": 1}}
            self.call("set_payload", change, [point.id for point in points], key="metadata")
            for point in points:
                point.payload = {**point.payload, "metadata": {**point.metadata, **change}}

    def do_overwrite_payload(self) -> None:
        selector, points = self.selection()
        payload = self.payload()
        if points:
            self.call("overwrite_payload", payload, selector)
            for point in points:
                point.payload = dict(payload)

    def do_delete_payload(self) -> None:
        selector, points = self.selection()
        if points:
            self.call("delete_payload", ["a", "metadata.note"], selector)
            for point in points:
                kept = {key: value for key, value in point.payload.items() if key != "a"}
                if "metadata" in kept:
                    kept["metadata"] = {key: value for key, value in kept["metadata"].items() if key != "note"}
                point.payload = kept

    def do_clear_payload(self) -> None:
        ids = self.present(2)
        if ids:
            self.call("clear_payload", models.PointIdsList(points=ids))
            for key in ids:
                self.points[key].payload = {}

    def do_update_vectors(self) -> None:
        changed = {key: vectors for key in self.present() if (vectors := self.vectors())}
        if changed:
            self.untouched = False
            given = [models.PointVectors(id=key, vector=corpus.to_vectors(each)) for key, each in changed.items()]
            self.call("update_vectors", given)
            for key, vectors in changed.items():
                self.points[key].vectors = {**self.points[key].vectors, **vectors}

    def do_delete_vectors(self) -> None:
        ids, names = self.present(), self.rng.sample(["dense", "bm25", "plain"], self.rng.randint(1, 2))
        if ids:
            self.untouched = False
            self.call("delete_vectors", names, ids)
            for key in ids:
                left = self.points[key].vectors
                self.points[key].vectors = {name: vector for name, vector in left.items() if name not in names}

    def do_index(self) -> None:
        if self.engine.indexes:
            field = self.rng.choice(["metadata.kind", "metadata.n", "metadata.tags", "metadata.note"])
            if self.rng.random() < 0.6:
                kind = models.PayloadSchemaType.FLOAT if field.endswith("n") else models.PayloadSchemaType.KEYWORD
                self.call("create_payload_index", field, kind)
            else:
                self.call("delete_payload_index", field)
