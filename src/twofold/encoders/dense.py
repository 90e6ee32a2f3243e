"""What may be passed as `dense=`, and how it becomes an encoder."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from twofold.encoders import bundled, hub
from twofold.encoders.base import DenseEncoder, check_dense
from twofold.errors import ConfigError, EncoderError

_PROBE = "dimension"


def resolve_dense(model: Any) -> DenseEncoder:
    """An encoder from a name or from anything that embeds; None is the bundled model.

    Objects are told apart by their methods, so that no framework is imported here.
    """
    if model is None or model == bundled.NAME:
        return bundled.encoder()
    if isinstance(model, DenseEncoder):
        return model
    if isinstance(model, str):
        return hub.dense(model)
    for methods, adapt in _ADAPTERS:
        if all(callable(getattr(model, method, None)) for method in methods):
            return adapt(model)
    raise ConfigError(
        f"dense= got a {type(model).__name__}: give a model name, a LangChain or LlamaIndex embedding, a fastembed "
        "TextEmbedding, or any object with embed_documents(texts) and embed_query(text)"
    )


def measure(encoder: DenseEncoder) -> int:
    """The dimension of an encoder: what it says, or what one text shows."""
    if encoder.dim is not None:
        return encoder.dim
    try:
        vector = np.asarray(encoder.embed_query(_PROBE), dtype=np.float32)
    except Exception as error:
        raise EncoderError(f"{encoder.name} failed on its first text: {error}") from error
    return int(check_dense(vector[None, ...], 1, None, encoder.name).shape[1])


def _langchain_like(model: Any) -> DenseEncoder:
    return DenseEncoder(
        name=_name(model),
        embed_documents=lambda texts: model.embed_documents(list(texts)),
        embed_query=model.embed_query,
        aembed_documents=_coroutine(model, "aembed_documents", list),
        aembed_query=_coroutine(model, "aembed_query", str),
    )


def _llamaindex_like(model: Any) -> DenseEncoder:
    return DenseEncoder(
        name=_name(model),
        embed_documents=lambda texts: model.get_text_embedding_batch(list(texts)),
        embed_query=model.get_query_embedding,
        aembed_documents=_coroutine(model, "aget_text_embedding_batch", list),
        aembed_query=_coroutine(model, "aget_query_embedding", str),
    )


def _fastembed_like(model: Any) -> DenseEncoder:
    return hub.from_fastembed(model, str(getattr(model, "model_name", _name(model))))


_ADAPTERS: tuple[tuple[tuple[str, ...], Callable[[Any], DenseEncoder]], ...] = (
    (("embed_documents", "embed_query"), _langchain_like),
    (("get_text_embedding_batch", "get_query_embedding"), _llamaindex_like),
    (("passage_embed", "query_embed"), _fastembed_like),
)


def _coroutine(model: Any, method: str, convert: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]] | None:
    function = getattr(model, method, None)
    if not inspect.iscoroutinefunction(function):
        return None
    return lambda value: function(convert(value))


def _name(model: Any) -> str:
    """Class and model name: what must agree when a collection is opened again."""
    kind = type(model).__qualname__
    for attribute in ("model_name", "model", "name"):
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return f"{kind}:{value}"
    return kind
