"""Dense vectors, computed once by a model, kept in a folder, and given to everyone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    """A set with its vectors, as every system gets it."""

    data: Dataset
    language: str
    documents: dict[str, Any]
    queries: dict[str, Any]
    """Also those that were asked since: what a search asks to see what scores mean, say."""
    model: DenseEncoder = field(default_factory=lambda: models.resolve_dense(None))

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Only texts of the set, however they are normalised."""
        return [self.documents[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        plain = _plain(text)
        if plain not in self.queries:
            self.queries[plain] = np.asarray(self.model.embed_query(plain), dtype=np.float32)
        vector: list[float] = self.queries[plain].tolist()
        return vector

    def encoder(self) -> DenseEncoder:
        """The model, with every vector ready."""
        return replace(
            self.model,
            embed_documents=lambda texts: np.asarray(self.embed_documents(texts)),
            embed_query=self.embed_query,
        )

    def without(self, apart: tuple[str, Any] | None) -> Material:
        """Without the questions that have this in their metadata."""
        if apart is None:
            return self
        field, value = apart
        kept = tuple(question for question in self.data.questions if question.metadata.get(field) != value)
        return replace(self, data=replace(self.data, questions=kept))


def model_named(name: str | None) -> DenseEncoder:
    """A bundled one (by default MiniLM), one of fastembed's list, or one whose files are in a folder: NAME=FOLDER."""
    named, _, folder = (name or "").partition("=")
    if not folder:
        return models.resolve_dense(named or None)
    from fastembed import TextEmbedding

    described = {each["model"].lower(): each for each in TextEmbedding.list_supported_models()}
    if named.lower() not in described:
        raise SystemExit(f"fastembed knows no model {named}: its list_supported_models() has them all")
    known = described[named.lower()]
    loaded = TextEmbedding(known["model"], specific_model_path=folder)
    return models.from_fastembed(loaded, known["model"], dim=int(known["dim"]))


def material(
    data: Dataset, language: str, cache: Path, sample: int | None = None, model: DenseEncoder | None = None
) -> Material:
    """A set with the vectors of a model, by default the bundled MiniLM."""
    model = models.resolve_dense(model)
    documents = [document.text for document in data.documents]
    queries = [_plain(question.text) for question in data.questions]
    stored = _vectors(f"{data.name}-documents", documents, cache, model, _CHUNK)
    # One by one, as they are asked: an int8 model's vectors differ a little with what else is in the batch.
    asked = _vectors(f"{data.name}-questions", queries, cache, model, None)
    return Material(
        data if sample is None else data.sample(sample),
        language,
        dict(zip(documents, stored, strict=True)),
        dict(zip(queries, asked, strict=True)),
        model,
    )


def _plain(query: str) -> str:
    """As Twofold hands a query to its model."""
    return normalise(query).strip()


def _vectors(what: str, texts: Sequence[str], cache: Path, model: DenseEncoder, chunk: int | None) -> Vectors:
    """From the cache, if the same model embedded the same texts before. Without a chunk they are questions."""
    digest = hashlib.sha256("\0".join([model.name, *texts]).encode()).hexdigest()[:16]
    path = cache / f"{what}-{digest}.npy"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp.npy")
        np.save(unfinished, _embed(what, texts, model, chunk))
        unfinished.rename(path)
    return np.asarray(np.load(path), dtype=np.float32)


def _embed(what: str, texts: Sequence[str], model: DenseEncoder, chunk: int | None) -> Vectors:
    with Progress(transient=True) as bar:
        task = bar.add_task(f"embedding {what}", total=len(texts))
        parts: list[Any] = []
        for start in range(0, len(texts), chunk or 1):
            some = texts[start : start + (chunk or 1)]
            parts.append(np.asarray(model.embed_documents(some) if chunk else [model.embed_query(some[0])]))
            bar.advance(task, len(some))
    return np.concatenate(parts)
