"""A random walk over an engine and over a plain dictionary: at every step both must say the same."""

from __future__ import annotations

from tests.kit import corpus
from tests.kit.walk_changes import Changes
from tests.kit.walk_checks import Checks


class Walk(Changes, Checks):
    """One walk: `do_…` changes both sides, `see_…` compares them, as often as ODDS says."""

    def run(self, steps: int) -> None:
        usual, names = list(ODDS.values()), list(ODDS)
        for number in range(steps):
            step = self.rng.choices(names, usual)[0]
            try:
                getattr(self, step)()
            except Exception as error:
                raise AssertionError(f"step {number}, {step}: {type(error).__name__}: {error}") from error
        self.engine.restart()
        self.see_everything()

    def do_move(self) -> None:
        """Everything into a new collection, where no deleted vector counts for IDF."""
        old = self.name
        self.name = self.engine.new_collection(**corpus.LAYOUT)
        if self.points:
            self.call("upsert", [point.struct() for point in self.points.values()])
        self.engine.delete_collection(old)
        self.untouched = True
        self.see_everything()

    def do_restart(self) -> None:
        if self.engine.process is None or self.rng.random() < 0.2:  # a process takes a second to come back
            self.engine.restart()
            self.see_everything()

    def do_optimise(self) -> None:
        if self.engine.name == "embedded" and self.rng.random() < 0.5:
            self.call("optimize")
            self.see_everything()


ODDS = {
    "do_upsert": 14,
    "do_upsert_columns": 3,
    "do_delete": 4,
    "do_delete_by_filter": 2,
    "do_set_payload": 5,
    "do_set_payload_under_a_key": 2,
    "do_overwrite_payload": 3,
    "do_delete_payload": 3,
    "do_clear_payload": 1,
    "do_update_vectors": 5,
    "do_delete_vectors": 3,
    "do_index": 0.5,
    "do_move": 0.6,
    "do_restart": 0.8,
    "do_optimise": 0.3,
    "see_everything": 4,
    "see_pages": 5,
    "see_count": 8,
    "see_retrieve": 4,
    "see_facet": 1,
    "see_dense": 8,
    "see_sparse": 8,
    "see_idf": 8,
    "see_fused": 8,
}
