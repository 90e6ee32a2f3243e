"""From what a search was asked for to what it looks for: arguments checked, typing errors mended, the text encoded.

`check_query` turns the arguments of a search into a `Query`. A `TypoReader` says what its mistyped words were meant to
be. A `QueryEncoder` turns its text into vectors, one for each leg that can be used, and says why not where one can't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import index
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from pydantic import ValidationError

from twofold.config import SearchConfig
from twofold.encoders.base import LRU, Breaker, Sparse, Vectors, check_dense
from twofold.encoders.bm25 import BM25, dictionary_words, known_words
from twofold.encoders.rerankers import Reranker, as_reranker, resolve_reranker
from twofold.engine import calls
from twofold.engine.layout import ScoredPoint, Stored, from_point, native_part_of
from twofold.engine.requests import VectorQuery
from twofold.errors import ConfigError, EncoderError, EngineError, EngineUnavailable, InvalidQuery, TwofoldError
from twofold.filters import Native, Node, parse, part_of
from twofold.flow import Flow, Work
from twofold.index.opening import Ready
from twofold.ranking.fusion import LegName, Strategy, resolve, shares
from twofold.ranking.ranker import Ranker
from twofold.ranking.vocabulary import doubtful, fold, is_form_of_known, most_likely, read_as, spellings_near
from twofold.text import normalise

if TYPE_CHECKING:
    from qdrant_client import models

FilterLike: TypeAlias = "Mapping[str, Any] | Node | models.Filter"
_MAX_HITS = 1_000_000


@dataclass(frozen=True)
class Query:
    """A search that has been checked. What follows `explain` is for those that build on the index."""

    text: str
    k: int
    offset: int
    where: Node | None
    ranker: Ranker
    """How candidates are scored, floored, screened and explained."""
    config: SearchConfig
    """Everything else; its own `fusion` and `min_score` are in the ranker."""
    explain: bool
    vector: Any = None
    """What the dense leg looks for, instead of the text's own vector; checked when the collection is known."""
    corrections: Mapping[str, str] | None = None
    """What mistyped words of the text were meant to be; None if that has not been looked for."""
    names: str = ""
    """The words of what the query names. They are looked for by themselves too, so that documents which have them are
    found even where others match the rest of the query better."""
    idf_corpus: Node | None = None
    """The documents whose words decide how rare a word is; None for the whole collection."""
    part: Node | None = None
    """The part of the collection that ranks as if it were one of its own; None for all of it."""
    words_of: Callable[[Any], str] | None = None
    """The text whose words find a stored document; None for its own text."""
    reranker: Reranker | str | None = None
    """Looks at the best candidates once more, after they have been ranked; a name where it has yet to be loaded."""

    @property
    def end(self) -> int:
        """Where the page ends in the ranking."""
        return self.offset + self.k

    @property
    def need(self) -> int:
        """How many rows of the ranking are needed: up to the end of the page, and all that a reranker looks at."""
        return self.end if self.reranker is None else max(self.end, self.config.rerank_top)


# --- Arguments, checked ---


def as_node(where: FilterLike | None) -> Node | None:
    """What a filter means; a native one passes through, an empty one is none."""
    if where is None or isinstance(where, Node):
        return where
    if isinstance(where, Mapping):
        return parse(where) if where else None
    given: Any = where
    return Native(given) if hasattr(given, "min_should") else parse(given)  # which says what a filter looks like


def check_query(
    query: object,
    config: SearchConfig,
    *,
    k: int,
    offset: int = 0,
    where: FilterLike | None = None,
    explain: bool = False,
    vector: Any = None,
    whole_corpus: bool = False,
    alpha: float | None = None,
    rerank: Any = None,
    **overrides: Any,
) -> Query:
    """Arguments of a search, checked; those that are None keep the configured value.

    How rare a word is follows from the part of the collection that the filter names, unless `whole_corpus` is set.
    """
    text, explain = check_text(query), check_flag("explain", explain)
    if vector is not None and not text.strip():
        alpha = 1.0  # there are no words to look for
    k, offset = _whole_number("k", k), _whole_number("offset", offset)
    if given := {name: value for name, value in overrides.items() if value is not None}:
        config = _overridden(config, given)
    fusion = config.fusion if alpha is None else _leaning(config.fusion, *shares(alpha))
    node = as_node(where)
    corpus = None if node is None or whole_corpus else _named_part(node)
    ranker = Ranker(fusion, config.min_score)
    looks = config.rerank if rerank is None else rerank
    reranker = as_reranker(looks) if text.strip() else None  # without words there is nothing to compare texts with
    return Query(
        text, k, offset, node, ranker, config, explain, vector, idf_corpus=corpus, part=corpus, reranker=reranker
    )


def with_reranker(config: SearchConfig, rerank: Any) -> SearchConfig:
    """The settings with their reranker at hand: one that can't be had is told now, and not by the first search."""
    if not isinstance(config, SearchConfig):
        raise ConfigError(f"config must be SearchConfig(…), got {type(config).__name__}")
    return config.model_copy(update={"rerank": resolve_reranker(config.rerank if rerank is None else rerank)})


def check_text(query: object) -> str:
    """A text to look for."""
    if not isinstance(query, str):
        raise InvalidQuery(f"the query must be a string, got {type(query).__name__}")
    return query


def check_vector(vector: Any, ready: Ready) -> Vectors:
    """A vector that can be compared with those of the collection, or what is wrong with it."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which is told below
            array = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidQuery(f"a vector is a list of numbers, got {type(vector).__name__}: {error}") from error
    if array.shape != (ready.dim,):
        raise InvalidQuery(
            f"the vector has shape {array.shape}, and those of the collection have {ready.dim} dimensions: make it "
            f"with the model that the collection was written with, {ready.dense.name}"
        )
    if not np.isfinite(array).all():
        raise InvalidQuery("the vector holds NaN or infinity, which can't be compared: give finite numbers")
    return array


def _whole_number(name: str, value: Any) -> int:
    """A number of hits; numpy's whole numbers count as such."""
    try:
        number = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= _MAX_HITS:
        raise InvalidQuery(f"{name} must be a whole number from 0 to {_MAX_HITS:,}, got {value!r}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """A switch, on or off; None counts as off."""
    if not isinstance(value, (bool, np.bool_, NoneType)):
        raise InvalidQuery(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def _named_part(where: Node) -> Node | None:
    """What a filter names is a part of the collection that ranks as if it had a collection of its own."""
    return native_part_of(where.filter) if isinstance(where, Native) else part_of(where)


def _overridden(config: SearchConfig, given: Mapping[str, Any]) -> SearchConfig:
    if "fusion" in given:
        given = {**given, "fusion": resolve(given["fusion"])}
    try:
        return _known(config, **given)
    except TypeError:  # something in it can't be looked up, so it isn't known
        return _validated(config, **given)


def _validated(config: SearchConfig, **given: Any) -> SearchConfig:
    try:
        return SearchConfig(**{**dict(config), **given})
    except ValidationError as error:
        problems = "; ".join(f"{e['loc'][0]}: {e['msg']}, got {e['input']!r}" for e in error.errors())
        raise InvalidQuery(problems) from error


# Programs ask in few ways, again and again. By type as well: True is equal to 1, but is no depth.
_known = lru_cache(maxsize=256, typed=True)(_validated)


@lru_cache(maxsize=256)
def _leaning(fusion: Strategy, meaning: float, _: float) -> Strategy:
    return fusion.with_alpha(meaning)


# --- The text as vectors ---


@contextmanager
def encoding(model: str, what: str) -> Iterator[None]:
    """Whatever a model raises is an error of ours, which names it."""
    try:
        yield
    except TwofoldError:
        raise
    except Exception as error:
        raise EncoderError(f"{model} failed on {what}: {error}") from error


_MAX_NAMED_CANDIDATES = 50
_LEGS: tuple[LegName, LegName] = ("dense", "lexical")


@dataclass(frozen=True, slots=True)
class EncodedLeg:
    """One leg of a query, as the engine is asked for it."""

    name: LegName
    vector: Vectors | Sparse
    terms: int = 1
    """How many different terms a lexical query has."""
    max_candidates: int | None = None
    """Bring no more candidates than this, whatever the depth."""


class QueryEncoder:
    """Encodes queries for one open collection, and remembers the vectors of the last ones."""

    def __init__(self, ready: Ready, cache_size: int) -> None:
        self._ready = ready
        self._vectors: LRU[Vectors] = LRU(cache_size)
        self._breaker = Breaker()

    def encode(self, text: str, fusion: Strategy, query: Query, reasons: list[str]) -> Flow[list[EncodedLeg]]:
        """The legs that this query can use. If all that have a weight fail, the other stands in."""
        wanted = [leg for leg in _LEGS if fusion.weight(leg) > 0]
        legs: list[EncodedLeg] = []
        for names in (wanted, [leg for leg in _LEGS if leg not in wanted]):
            for name in names if not legs else ():
                unusable = self._ready.no_dense if name == "dense" else self._ready.no_lexical
                if unusable:
                    reasons.append(unusable)
                    continue
                try:
                    leg = yield from self._encode_leg(name, text, query)
                except Exception as error:  # whatever a model raises, the other leg goes on
                    reasons.append(f"the {name} encoder failed: {type(error).__name__}: {error}")
                    continue
                if leg is None:
                    reasons.append("the query has no word that the lexical leg indexes")
                else:
                    legs.append(leg)
        if query.names and legs and legs[-1].name == "lexical":  # once more, for the words of what the query names
            named: Sparse = yield Work(lambda: self._ready.sparse.embed_query(query.names))
            if named.indices:
                legs.append(replace(legs[-1], vector=named, max_candidates=_MAX_NAMED_CANDIDATES))
        return legs

    def _encode_leg(self, name: LegName, text: str, query: Query) -> Flow[EncodedLeg | None]:
        """One leg; None if there is nothing to look for."""
        if name == "dense":
            vector = (yield from self.dense(text)) if query.vector is None else query.vector
            return EncodedLeg("dense", vector)
        words: Sparse = yield Work(lambda: self._ready.sparse.embed_query(text))
        return EncodedLeg("lexical", words, words.terms) if words.indices else None

    def dense(self, text: str) -> Flow[Vectors]:
        """The dense vector of a text, from the cache if it is there."""
        cached = self._vectors.get(text)
        if cached is not None:
            return cached
        encoder, native = self._ready.dense, self._ready.dense.aembed_query
        self._breaker.check()
        try:
            raw = yield Work(lambda: encoder.embed_query(text), None if native is None else lambda: native(text))
            vector: Vectors = check_dense(np.asarray(raw)[None, ...], 1, self._ready.dim, encoder.name)[0]
        except Exception:
            self._breaker.failed()
            raise
        self._breaker.worked()
        self._vectors.put(text, vector)
        return vector

    def embed_query(self, text: str) -> Flow[list[float]]:
        """The dense vector that a search for this text compares with."""
        cleaned = normalise(check_text(text))
        with encoding(self._ready.dense.name, "a query"):
            vector = yield from self.dense(cleaned)
        numbers: list[float] = vector.tolist()
        return numbers


# --- Typing errors ---

_MAX_DOUBTFUL_WORDS = 8  # a text with more of them is in another language, or no question
_MAX_WORDS = 10_000
_TEXTS_COMPARED = 32


class TypoReader:
    """Finds out what mistyped words of queries were meant to be, and remembers which need no correction.

    Whether a word is one is asked of the bundled model's vocabulary and an English dictionary, then of the collection:
    has a document this word, and if not, which have something that is spelled nearly like it? So all that is stored
    counts, whoever wrote it and when; and who may see only some documents learns no word of the others.
    """

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self._known: frozenset[str] | None = None
        self._words: LRU[bool] = LRU(_MAX_WORDS)

    def read(self, text: str, query: Query, reasons: list[str]) -> Flow[tuple[str, Mapping[str, str]]]:
        """A query's text as it was meant, and what was read as what."""
        corrections = query.corrections if query.config.typos else {}
        if corrections is None:
            corrections = yield from self.corrections(text, query.where, reasons)
        return read_as(text, corrections), corrections

    def corrections(
        self,
        text: str,
        where: Node | None,
        reasons: list[str],
        words_of: Callable[[Stored], str] = lambda stored: stored.searched_text,
    ) -> Flow[dict[str, str]]:
        """For each word of a text that is none, and that no document has, the one that was probably meant."""
        sparse = self._ready.sparse
        if self._ready.no_lexical or not isinstance(sparse, BM25):  # other models find something for every word
            return {}
        if self._known is None:
            self._known = yield Work(known_words)
        words = doubtful(text, self._known)
        if not words or len(words) > _MAX_DOUBTFUL_WORDS:
            return {}
        dictionary: frozenset[str] = yield Work(dictionary_words)
        words = [word for word in words if word not in dictionary]
        keys = {word: f"{where!r} {word}" for word in words}  # a filter of the engine's own can't be hashed
        words = [word for word in words if not self._words.get(keys[word])]
        forms = [word for word in words if is_form_of_known(word, self._known, sparse.stem)]
        words = [word for word in words if word not in forms]
        try:
            found = yield from self._find([[word] for word in words], sparse, where)
            absent = [word for word, points in zip(words, found, strict=True) if not points]
            for word in {*words, *forms}.difference(absent):
                self._words.put(keys[word], True)
            near = [spellings_near(word) for word in absent]
            found = yield from self._find(near, sparse, where, limit=_TEXTS_COMPARED)
        except EngineUnavailable:
            raise
        except EngineError as error:
            reasons.append(f"typing errors could not be looked for: {error}")
            return {}
        texts = [[words_of(from_point(point, self._ready.layout)) for point in points] for points in found]
        meant = [most_likely(*each, sparse.stem) for each in zip(near, texts, strict=True)]
        return {fold(word): right for word, right in zip(absent, meant, strict=True) if right is not None}

    def _find(
        self, words: Sequence[Iterable[str]], sparse: BM25, where: Node | None, limit: int = 1
    ) -> Flow[list[Sequence[ScoredPoint]]]:
        """For each of several lists of words, documents that have one of them."""
        if not words:
            return []
        vectors: list[Sparse] = yield Work(lambda: [sparse.word_vector(each) for each in words])
        queries = [VectorQuery(vector, limit, where, with_payload=limit > 1) for vector in vectors]
        return (yield from calls.query(self._ready.collection, queries))
