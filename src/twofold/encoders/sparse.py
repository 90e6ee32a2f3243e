"""What may be passed as `sparse=`, and how it becomes an encoder."""

from __future__ import annotations

from typing import Any

from twofold.encoders import hub
from twofold.encoders.base import SparseEncoder
from twofold.encoders.bm25 import BM25
from twofold.errors import ConfigError

_METHODS = ("embed_documents", "embed_query", "matched_words")


def resolve_sparse(model: Any, language: str | None) -> SparseEncoder:
    """An encoder from a name, a `BM25`, or an object with the methods of `SparseEncoder`."""
    if model is None or model == "bm25":
        return BM25(language or "english")
    if language is not None:
        raise ConfigError("language= is for the built-in BM25: give either sparse= or language=")
    if isinstance(model, str):
        return hub.sparse(model)
    if all(callable(getattr(model, method, None)) for method in _METHODS):
        encoder: SparseEncoder = model
        return encoder
    raise ConfigError(
        f"sparse= got a {type(model).__name__}: give a BM25(...), the name of a fastembed sparse model, or an "
        f"object with settings, needs_idf, {', '.join(_METHODS)}"
    )
