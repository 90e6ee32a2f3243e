"""One engine for each name and style, and in it a library that is only read and a shelf that is filled anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kit import corpus
from tests.kit.engines import ENGINES, STYLES, Engine

pytest.register_assert_rewrite("tests.kit.oracle", "tests.kit.walk_checks")


@dataclass(frozen=True)
class Shelf:
    """A collection and what it holds."""

    engine: Engine
    name: str
    points: list[corpus.Point]


@pytest.fixture(scope="session", params=[f"{engine}-{style}" for engine in ENGINES for style in STYLES])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    name, style = request.param.rsplit("-", 1)
    opened = Engine(name, style, tmp_path_factory.mktemp(request.param))
    yield opened
    opened.shut()


@pytest.fixture(scope="session")
def library(engine: Engine) -> Shelf:
    """Sixty points, indexed, to be read only."""
    name = engine.new_collection(**corpus.LAYOUT)
    points = corpus.points(60)
    engine.upsert(name, [point.struct() for point in points])
    if engine.indexes:
        for field, kind in corpus.INDEXES.items():
            engine.create_payload_index(name, field, kind)
    return Shelf(engine, name, points)


@pytest.fixture(scope="session")
def shelf_name(engine: Engine) -> str:
    return engine.new_collection(**corpus.LAYOUT)


@pytest.fixture
def shelf(engine: Engine, shelf_name: str) -> Shelf:
    """A dozen points, to be changed. The collection is the same each time: making one takes a while."""
    points = corpus.points(12)
    if left := [record.id for record in engine.scroll(shelf_name, limit=1000)[0]]:
        engine.delete(shelf_name, left)
    engine.upsert(shelf_name, [point.struct() for point in points])
    return Shelf(engine, shelf_name, points)
