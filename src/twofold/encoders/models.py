"""Which model turns texts into vectors: from what a user passes as `dense=` or `sparse=` to an encoder.

`resolve_dense` takes nothing (the bundled model: all-MiniLM-L6-v2, int8), a name in fastembed's list, or an embedding
object of LangChain, LlamaIndex, fastembed or the user. `resolve_sparse` takes nothing (BM25), the name of a learned
sparse model, or an object of the user. A model with a name is downloaded from the hub once, then read from fastembed's
cache.
"""

from __future__ import annotations

import inspect
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.encoders.base import DenseEncoder, Sparse, SparseEncoder, Vectors, check_dense
from twofold.encoders.bm25 import BM25
from twofold.errors import ConfigError, EncoderError, ModelUnavailable

if TYPE_CHECKING:
    from fastembed import SparseTextEmbedding, TextEmbedding

BUNDLED = "all-MiniLM-L6-v2-int8"
BUNDLED_DIM = 384
_BUNDLED_FOLDER = Path(__file__).with_name("minilm")
_bundled_lock = Lock()

_HUB = "https://huggingface.co"
_HUB_TIMEOUT_SECONDS = 4.0
# What goes before a query and before a passage, by the models' own cards; fastembed leaves it to the caller.
_BGE_PREFIX = "Represent this sentence for searching relevant passages: "
_PREFIXES = (
    ("-e5-", ("query: ", "passage: ")),
    ("nomic-embed-text", ("search_query: ", "search_document: ")),
    *((f"bge-{size}-en", (_BGE_PREFIX, "")) for size in ("small", "base", "large")),
    *((family, (_BGE_PREFIX, "")) for family in ("mxbai-embed-large", "snowflake-arctic-embed")),
)

_DENSE_METHODS = (("embed_documents", "embed_query"), ("get_text_embedding_batch", "get_query_embedding"))
"""How LangChain and LlamaIndex call the two ways to embed; awaited, both have an `a` in front."""
_SPARSE_METHODS = ("embed_documents", "embed_query", "matched_words")


def resolve_dense(model: Any) -> DenseEncoder:
    """An encoder from a name or from anything that embeds, told by its methods; None is the bundled model."""
    if model is None or model == BUNDLED:
        return bundled_dense()
    if isinstance(model, DenseEncoder):
        return model
    if isinstance(model, str):
        from fastembed import TextEmbedding

        loaded, described = load_by_name(TextEmbedding, model, "dense")
        return from_fastembed(loaded, described["model"], dim=int(described["dim"]), by_name=True)
    for methods in _DENSE_METHODS:
        if _has(model, *methods):
            return _adapt(model, *methods)
    if _has(model, "passage_embed", "query_embed"):
        return from_fastembed(model, str(getattr(model, "model_name", _name_of(model))))
    raise ConfigError(
        f"dense= got a {type(model).__name__}: give a model name, a LangChain or LlamaIndex embedding, a fastembed "
        "TextEmbedding, or any object with embed_documents(texts) and embed_query(text)"
    )


def dimension_of(encoder: DenseEncoder) -> int:
    """The dimension of an encoder: what it says, or what one text shows."""
    if encoder.dim is not None:
        return encoder.dim
    try:
        vector = np.asarray(encoder.embed_query("dimension"), dtype=np.float32)
    except Exception as error:
        raise EncoderError(f"{encoder.name} failed on its first text: {error}") from error
    return int(check_dense(vector[None, ...], 1, None, encoder.name).shape[1])


def bundled_dense() -> DenseEncoder:
    """The bundled model. Its weights are read at the first text, not before."""
    return DenseEncoder(
        name=BUNDLED,
        dim=BUNDLED_DIM,
        by_name=True,
        languages=frozenset({"english"}),
        embed_documents=_embed_bundled,
        embed_query=lambda text: _embed_bundled([text])[0],
    )


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """The words that the bundled model has whole in its vocabulary, most of them English; none if it isn't there."""
    path = _BUNDLED_FOLDER / "tokenizer.json"
    pieces = json.loads(path.read_text("utf-8"))["model"]["vocab"] if path.is_file() else ()
    return frozenset(piece for piece in pieces if piece.isalpha())  # the others, such as "##ing", are parts of words


def _embed_bundled(texts: Sequence[str]) -> Vectors:
    """One by one, as quick as a batch: in one, the 8-bit model makes a text's vector depend on its neighbours."""
    with _bundled_lock:  # lru_cache alone lets several threads build the model at once
        model = _bundled_model()
    vectors = list(model.embed(texts, batch_size=1))
    return np.asarray(vectors, dtype=np.float32).reshape(len(texts), BUNDLED_DIM)


@lru_cache(maxsize=1)
def _bundled_model() -> TextEmbedding:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if not (_BUNDLED_FOLDER / "model.onnx").is_file():
        raise ModelUnavailable(
            "the bundled model is not in this installation: install the built package (pip install twofold), "
            "or in a source tree run `pip install -e .`, which fetches it",
            model=BUNDLED,
        )
    if not any(known["model"] == BUNDLED for known in TextEmbedding.list_supported_models()):
        TextEmbedding.add_custom_model(
            model=BUNDLED,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf=BUNDLED),
            dim=BUNDLED_DIM,
            model_file="model.onnx",
        )
    return TextEmbedding(BUNDLED, specific_model_path=str(_BUNDLED_FOLDER))


def from_fastembed(model: TextEmbedding, name: str, *, dim: int | None = None, by_name: bool = False) -> DenseEncoder:
    """A `TextEmbedding` as an encoder; queries and passages get the words in front that the model was trained with."""
    query, passage = next((prefixes for family, prefixes in _PREFIXES if family in name.lower()), ("", ""))
    return DenseEncoder(
        name=name,
        dim=dim,
        by_name=by_name,
        embed_documents=lambda texts: list(model.passage_embed([passage + text for text in texts])),
        embed_query=lambda text: next(iter(model.query_embed(query + text))),
    )


def _has(model: Any, *methods: str) -> bool:
    return all(callable(getattr(model, method, None)) for method in methods)


def _adapt(model: Any, documents: str, query: str) -> DenseEncoder:
    functions = {name: getattr(model, f"a{name}", None) for name in (documents, query)}
    awaited: dict[str, Any] = {name: each for name, each in functions.items() if inspect.iscoroutinefunction(each)}
    return DenseEncoder(
        name=_name_of(model),
        embed_documents=lambda texts: getattr(model, documents)(list(texts)),
        embed_query=getattr(model, query),
        aembed_documents=(lambda texts: awaited[documents](list(texts))) if documents in awaited else None,
        aembed_query=awaited.get(query),
    )


def _name_of(model: Any) -> str:
    """Class and model name: what must agree when a collection is opened again."""
    kind = type(model).__qualname__
    for attribute in ("model_name", "model", "name"):
        value = getattr(model, attribute, None)
        if isinstance(value, str) and value:
            return f"{kind}:{value}"
    return kind


def resolve_sparse(model: Any, language: str | None) -> SparseEncoder:
    """An encoder from a name, a `BM25`, or an object with the methods of `SparseEncoder`."""
    if model is None or model == "bm25":
        return BM25(language or "english")
    if language is not None:
        raise ConfigError("language= is for the built-in BM25: give either sparse= or language=")
    if isinstance(model, str):
        from fastembed import SparseTextEmbedding

        loaded, described = load_by_name(SparseTextEmbedding, model, "sparse")
        return LearnedSparse(loaded, described["model"], needs_idf=bool(described.get("requires_idf")))
    if _has(model, *_SPARSE_METHODS):
        encoder: SparseEncoder = model
        return encoder
    raise ConfigError(
        f"sparse= got a {type(model).__name__}: give a BM25(...), the name of a fastembed sparse model, or an "
        f"object with settings, needs_idf, {', '.join(_SPARSE_METHODS)}"
    )


class LearnedSparse:
    """A learned sparse model (SPLADE and the like) of fastembed's list."""

    def __init__(self, model: SparseTextEmbedding, name: str, *, needs_idf: bool = False) -> None:
        self._model = model
        self.settings = {"model": name}  # which decides everything
        self.needs_idf = needs_idf

    def embed_documents(self, texts: Sequence[str]) -> list[Sparse]:
        """Vectors to store."""
        return [_from_fastembed_sparse(vector) for vector in self._model.embed(list(texts))]

    def embed_query(self, text: str) -> Sparse:
        """A vector to search with."""
        return _from_fastembed_sparse(next(iter(self._model.query_embed(text))))

    def matched_words(self, query: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Empty: such a model matches by expanded terms, not by the words of the query."""
        return [() for _ in texts]


def _from_fastembed_sparse(vector: Any) -> Sparse:
    pairs = sorted(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))
    return Sparse([i for i, _ in pairs], [v for _, v in pairs])


def load_by_name(family: Any, name: str, kind: str) -> tuple[Any, Mapping[str, Any]]:
    """A model of fastembed's list and its entry there: from the cache, or else from the hub, if that answers at all."""
    described = next((each for each in family.list_supported_models() if each["model"].lower() == name.lower()), None)
    if described is None:
        raise ConfigError(
            f"{kind} model {name!r} is not one that fastembed knows: fastembed's list_supported_models() has them "
            f"all, or pass an object of your own as {kind}="
        )
    name = described["model"]  # as the list writes it: the name is recorded and compared
    try:
        return family(name, local_files_only=True), described
    except Exception as error:  # fastembed raises many kinds when a cached file is missing
        missing = error
    reason = _why_hub_is_unreachable()
    if reason is None:
        try:
            return family(name), described
        except Exception as error:
            reason = str(error)
    raise ModelUnavailable(
        f"model {name!r} is not in the local cache and could not be downloaded ({reason}). Connect once and open "
        "it again, or copy fastembed's cache folder (FASTEMBED_CACHE_PATH) from a machine that has it, or leave "
        f"the model out{'' if kind == 'rerank' else ' to use the bundled one'}.",
        model=name,
    ) from missing


def _why_hub_is_unreachable() -> str | None:
    """Why the hub can't be reached, None if it answers at all: without it, fastembed tries for most of a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        return "HF_HUB_OFFLINE is set"
    hub = os.environ.get("HF_ENDPOINT") or _HUB
    try:
        request = urllib.request.Request(hub, method="HEAD")  # noqa: S310 - the user's own hub setting
        urllib.request.urlopen(request, timeout=_HUB_TIMEOUT_SECONDS).close()  # noqa: S310
    except urllib.error.HTTPError:
        return None
    except (OSError, ValueError, HTTPException) as error:
        return f"{hub} does not answer: {getattr(error, 'reason', error)}"
    return None
