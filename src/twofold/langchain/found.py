"""Hits as LangChain documents, and such documents back as they were stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from langchain_core.documents import Document

from twofold import Document as Stored
from twofold import Explanation, Hit, MemoryHit, MemoryItem, SearchResult
from twofold.memory import SHOWN

_UNEXPLAINED = dict.fromkeys(field.name for field in fields(Explanation))
_EXPLAINED = {*_UNEXPLAINED, "relevance", "mode", "degraded"}


def plain(stored: Hit | Stored) -> Document:
    """A document as it was stored, nothing added."""
    return Document(page_content=stored.text, id=stored.id, metadata=dict(stored.metadata))


def explained(result: SearchResult) -> list[Document]:
    """The hits of a search, each with its score and why it is there beside its own metadata."""
    return [_explained(hit, result) for hit in result]


def _explained(hit: Hit, result: SearchResult) -> Document:
    document = plain(hit)
    own = set(document.metadata)
    if "explanation" in own:  # the mark by which the rest is told from the user's own, when it is written back
        return document
    why = _explanation(hit, result)
    added = {"score": hit.score, "explanation": why}
    if isinstance(hit, MemoryHit):
        added["memory"] = _facts(hit.memory)
    document.metadata.update({name: value for name, value in added.items() if name not in own})
    return document


def _explanation(hit: Hit, result: SearchResult) -> dict[str, Any]:
    why = _UNEXPLAINED if hit.explanation is None else asdict(hit.explanation)
    told = {"final_score": hit.score, "relevance": hit.relevance, "mode": result.mode, "degraded": result.degraded}
    return {name: _json(value) for name, value in {**why, **told}.items()}


def _facts(item: MemoryItem) -> dict[str, Any]:
    """What is known about a memory besides its text and the user's own metadata."""
    return {name: _json(getattr(item, name)) for name in SHOWN}


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value.isoformat() if isinstance(value, datetime) else value


def own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what a retriever added, so that a document can be found, changed and written back.

    An explanation is known by its fields, which nobody's own metadata has by chance.
    """
    why, facts = metadata.get("explanation"), metadata.get("memory")
    if not isinstance(why, Mapping) or set(why) != _EXPLAINED:
        return dict(metadata)
    added = {"explanation"}
    if metadata.get("score") == why["final_score"]:
        added.add("score")
    if isinstance(facts, Mapping) and set(facts) == set(SHOWN):
        added.add("memory")
    return {name: value for name, value in metadata.items() if name not in added}
