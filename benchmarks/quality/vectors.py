"""Dense vectors, computed once by the bundled model, kept in a folder, and given to everyone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from twofold.encoders import models
from twofold.encoders.base import DenseEncoder, Vectors
from twofold.eval import Dataset
from twofold.text import normalise

_CHUNK = 256


@dataclass(frozen=True)
class Material:
    """A set with its vectors, as every system gets it. Embeds only texts of the set, however they are normalised."""

    data: Dataset
    language: str
    documents: dict[str, Any]
    queries: dict[str, Any]

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.documents[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self.queries[_plain(text)].tolist()
        return vector

    def encoder(self) -> DenseEncoder:
        """The bundled model, with every vector ready."""
        model = models.bundled_dense()
        return DenseEncoder(
            name=model.name,
            dim=model.dim,
            languages=model.languages,
            background=model.background,
            embed_documents=lambda texts: np.asarray(self.embed_documents(texts)),
            embed_query=self.embed_query,
        )

    def without(self, apart: tuple[str, Any] | None) -> Material:
        """The same set, less the questions that have this value in this field of their metadata."""
        if apart is None:
            return self
        field, value = apart
        kept = tuple(question for question in self.data.questions if question.metadata.get(field) != value)
        return replace(self, data=replace(self.data, questions=kept))


def material(data: Dataset, language: str, cache: Path, sample: int | None = None) -> Material:
    documents = [document.text for document in data.documents]
    queries = [_plain(question.text) for question in data.questions]
    return Material(
        data if sample is None else data.sample(sample),
        language,
        dict(zip(documents, _vectors(f"{data.name}-documents", documents, cache, _CHUNK), strict=True)),
        # One by one, as they are asked: an int8 model's vectors differ a little with what else is in the batch.
        dict(zip(queries, _vectors(f"{data.name}-questions", queries, cache, 1), strict=True)),
    )


def _plain(query: str) -> str:
    """As Twofold hands a query to its model."""
    return normalise(query).strip()


def _vectors(what: str, texts: Sequence[str], cache: Path, chunk: int) -> Vectors:
    """From the cache, if the same model embedded the same texts before."""
    digest = hashlib.sha256("\0".join([models.BUNDLED, *texts]).encode()).hexdigest()[:16]
    path = cache / f"{what}-{digest}.npy"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp.npy")
        np.save(unfinished, _embed(what, texts, chunk))
        unfinished.rename(path)
    return np.asarray(np.load(path), dtype=np.float32)


def _embed(what: str, texts: Sequence[str], chunk: int) -> Vectors:
    model = models.bundled_dense()
    with Progress(transient=True) as bar:
        task = bar.add_task(f"embedding {what}", total=len(texts))
        parts = []
        for start in range(0, len(texts), chunk):
            parts.append(model.embed_documents(texts[start : start + chunk]))
            bar.advance(task, len(texts[start : start + chunk]))
    return np.concatenate(parts)
