"""Who looks at the best candidates once more: from what a user passes as `rerank=` to a `Reranker`.

That is the name of a cross-encoder in fastembed's list, a `TextCrossEncoder`, a LangChain document compressor, a
LlamaIndex node postprocessor, or any function of (query, texts) that gives one score for each text. What they answer
is read as an order, with scores where there are some; `ranking.ranker.reranked` makes a ranking of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from twofold.documents import Document
from twofold.encoders.base import Breaker
from twofold.encoders.models import load_by_name
from twofold.errors import ConfigError, EncoderError
from twofold.flow import Flow, Work

Order: TypeAlias = "list[tuple[int, float | None]]"
"""Places among what was looked at, best first, each with its score; None where only the order is known."""

_PLACE_KEY = "_twofold_place"
_SCORE_KEY = "relevance_score"
"""Where LangChain's compressors put their score."""
_loading = Lock()


@dataclass(frozen=True)
class Reranker:
    """Looks at documents together with the query's text, which takes longer and sees more than comparing vectors."""

    look: Callable[[str, Sequence[Document]], Any]
    """Answers with scores, or with whatever `read` understands."""
    read: Callable[[Any, int], Order]
    """The answer for so many documents as an order, or an error that says what is wrong with it."""
    alook: Callable[[str, Sequence[Document]], Awaitable[Any]] | None = None
    """`look` where it can be awaited natively."""
    breaker: Breaker = field(default_factory=Breaker, compare=False)

    def rerank(self, query: str, documents: Sequence[Document], seconds: float) -> Flow[Order]:
        """The order that it gives the documents, within so many seconds. It may leave some out."""
        awaited = self.alook
        self.breaker.check()
        try:
            call = Work(
                lambda: self.look(query, documents),
                None if awaited is None else lambda: awaited(query, documents),
                seconds,
            )
            order = self.read((yield call), len(documents))
        except Exception:
            self.breaker.failed()
            raise
        self.breaker.worked()
        return order


def resolve_reranker(given: Any) -> Reranker | None:
    """A reranker from a name or from anything that scores or orders texts, told by its methods."""
    if given is None or given is False or isinstance(given, Reranker):
        return given or None
    if isinstance(given, str):
        with _loading:  # lru_cache alone lets several threads load the model at once
            return _by_name(given)
    if hasattr(given, "compress_documents"):
        return _from_compressor(given)
    if hasattr(given, "postprocess_nodes"):
        return _from_postprocessor(given)
    if hasattr(given, "rerank_pairs"):
        return _from_function(lambda query, texts: list(given.rerank(query, texts)))
    if callable(given):
        return _from_function(given)
    raise ConfigError(
        f"rerank= got a {type(given).__name__}: give the name of a fastembed cross-encoder, a LangChain compressor, a "
        "LlamaIndex postprocessor, or a function of (query, texts) that gives a score for each text"
    )


def as_reranker(given: Any) -> Reranker | str | None:
    """The same, but a name stays one: its model is loaded when it is needed, or when an index is opened."""
    return given if isinstance(given, str) else resolve_reranker(given)


@lru_cache(maxsize=4)
def _by_name(name: str) -> Reranker | None:
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    model, _ = load_by_name(TextCrossEncoder, name, "rerank")
    return resolve_reranker(model)


# --- Scores, one for each text ---


def _from_function(score: Callable[[str, list[str]], Any]) -> Reranker:
    if not inspect.iscoroutinefunction(score) and not inspect.iscoroutinefunction(type(score).__call__):
        return Reranker(lambda query, documents: score(query, _texts(documents)), _read_scores)

    async def ascore(query: str, documents: Sequence[Document]) -> Any:
        return await score(query, _texts(documents))

    # A blocking search runs it in a thread of its own (see `Work.seconds`), which has no event loop yet.
    return Reranker(lambda query, documents: asyncio.run(ascore(query, documents)), _read_scores, ascore)


def _texts(documents: Sequence[Document]) -> list[str]:
    return [each.searched_text for each in documents]


def _read_scores(answer: Any, count: int) -> Order:
    try:
        scores = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EncoderError(f"it must give a list of numbers, got {type(answer).__name__}: {error}") from error
    if scores.shape != (count,):
        raise EncoderError(f"it gave shape {scores.shape} for {count} texts: it must give one score for each")
    if not np.isfinite(scores).all():
        raise EncoderError("it gave NaN or infinity: every text needs a finite score")
    best_first = np.argsort(-scores, kind="stable")  # of equal scores, the better one before comes first
    return [(int(place), float(scores[place])) for place in best_first]


# --- Objects of frameworks, which give back what they were given, in another order ---


def _from_compressor(model: Any) -> Reranker:
    from langchain_core.documents import Document as Page

    def pages(documents: Sequence[Document]) -> list[Page]:
        # Some make new documents of them, in which nothing but the metadata is the same.
        return [
            Page(page_content=each.searched_text, id=each.id, metadata={**_without_score(each), _PLACE_KEY: place})
            for place, each in enumerate(documents)
        ]

    def read(answer: Sequence[Page], count: int) -> Order:
        return _read_order(((page.metadata.get(_PLACE_KEY), page.metadata.get(_SCORE_KEY)) for page in answer), count)

    return Reranker(
        lambda query, documents: model.compress_documents(pages(documents), query),
        read,
        (lambda query, documents: model.acompress_documents(pages(documents), query))
        if hasattr(model, "acompress_documents")
        else None,
    )


def _without_score(document: Document) -> dict[str, Any]:
    """The document's metadata, in which nothing looks like a score of the compressor."""
    return {name: value for name, value in document.metadata.items() if name != _SCORE_KEY}


def _from_postprocessor(model: Any) -> Reranker:
    from llama_index.core.schema import NodeWithScore, TextNode

    def nodes(documents: Sequence[Document]) -> list[NodeWithScore]:
        found = []
        for place, each in enumerate(documents):
            kept = list(each.metadata)  # at hand, and not a part of the text that is judged
            node = TextNode(id_=str(place), text=each.searched_text, metadata=dict(each.metadata))
            node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = kept
            found.append(NodeWithScore(node=node))
        return found

    def read(answer: Sequence[NodeWithScore], count: int) -> Order:
        ids = {str(place): place for place in range(count)}
        return _read_order(((ids.get(each.node.node_id), each.score) for each in answer), count)

    return Reranker(
        lambda query, documents: model.postprocess_nodes(nodes(documents), query_str=query),
        read,
        (lambda query, documents: model.apostprocess_nodes(nodes(documents), query_str=query))
        if hasattr(model, "apostprocess_nodes")
        else None,
    )


def _read_order(answer: Iterable[tuple[Any, Any]], count: int) -> Order:
    order: dict[int, float | None] = {}
    for place, score in answer:
        if not isinstance(place, int) or not 0 <= place < count or place in order:
            raise EncoderError("it gave back something that it was not given, or the same twice")
        order[place] = None if score is None else float(score)
    if not all(score is None or np.isfinite(score) for score in order.values()):
        raise EncoderError("it gave NaN or infinity as a score")
    return list(order.items())
