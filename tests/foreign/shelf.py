"""Collections of other packages, as they were recorded, put into a store of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models

from tests.foreign.write import COLLECTION, embed

RECORDED = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in RECORDED.glob("*.json"))


class Model:
    """The model that the packages wrote with."""

    model_name = "recorded"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return embed(text)


def rows_of(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RECORDED / f"{name}.json").read_text())["rows"]
    return rows


def put(client: QdrantClient, name: str) -> None:
    """The collection as the package made it."""
    settings = json.loads((RECORDED / f"{name}.json").read_text())["settings"]
    made = models.CreateCollection(**settings)
    client.create_collection(COLLECTION, made.vectors, made.sparse_vectors)
    client.upsert(COLLECTION, [models.PointStruct(**row) for row in rows_of(name)])


def snapshot(client: QdrantClient, collection: str = COLLECTION) -> dict[Any, tuple[Any, Any]]:
    """Everything in a collection: payloads, and vectors that the package knows."""
    points, _ = client.scroll(collection, limit=10_000, with_vectors=True)
    rows = [point.model_dump(mode="json") for point in points]
    # Local mode has other last digits whenever it is asked.
    return {row["id"]: (row["payload"], _coarse(row["vector"])) for row in rows}


def _coarse(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _coarse(each) for name, each in value.items()}
    return [_coarse(each) for each in value] if isinstance(value, list) else round(value, 4)
