"""A memory of a data set's own documents, to be recalled with any settings, those of `MemoryConfig` included."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twofold.documents import Document
from twofold.eval.corpus import bm25_settings, remembering
from twofold.eval.errors import EvaluationError

if TYPE_CHECKING:
    from twofold.index.writing import ProgressLike
    from twofold.memory import Memory, MemoryResult

_OWN = ("type", "category", "tags", "source", "trust", "pinned", "importance", "created")
"""What a memory has fields of its own for: taken from a document's metadata."""
_USER = "evaluation"


class CorpusMemory:
    """Documents as memories of one user, in memory.

    `recall` takes what `Memory.recall` takes, the settings of `MemoryConfig` and those of BM25. What decides the stored
    vectors gets a memory of its own when it is first asked for; dense vectors are computed once and used by all. Tags,
    type, created and the like in a document's metadata become the memory's own.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        *,
        dense: Any = None,
        language: str = "english",
        progress: ProgressLike = False,
    ) -> None:
        """Embed and store the documents.

        Args:
            documents: What to recall.
            dense: The model for meaning, as for `Memory.open`.
            language: The language of BM25.
            progress: True for a progress bar, or a function that gets (done, total).
        """
        if not documents:
            raise EvaluationError("the data set brings no documents: evaluate a memory that holds them")
        self._documents, self._language = list(documents), language
        from twofold.encoders.models import resolve_dense

        self._dense = remembering(resolve_dense(dense))
        self._stored: dict[str, Memory] = {}
        self._views: dict[str, Memory] = {}
        self._ids: dict[str, list[str]] = {}
        self._memory({}, progress)

    def recall(self, query: str, k: int | None = None, **settings: Any) -> MemoryResult:
        """Recall with these settings. The hits have the ids of the documents."""
        arguments = {name: settings.pop(name) for name in _arguments() if name in settings}
        result = self._view(settings).recall(query, k, **{"touch": False, **arguments})
        hits = [replace(hit, id=identity) for hit in result for identity in self._ids[hit.id]]
        return replace(result, hits=tuple(hits))

    def close(self) -> None:
        """Let go of the memories."""
        for memory in self._stored.values():
            memory.close()

    def __enter__(self) -> CorpusMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _view(self, settings: Mapping[str, Any]) -> Memory:
        """The memory that recalls with these settings."""
        key = repr(sorted(settings.items()))
        if key not in self._views:
            deciding = (*bm25_settings(), *stored_settings())
            stored = {name: value for name, value in settings.items() if name in deciding}
            rest = {name: value for name, value in settings.items() if name not in deciding}
            memory = self._memory(stored)
            self._views[key] = memory.with_settings(**rest) if rest else memory
        return self._views[key]

    def _memory(self, settings: Mapping[str, Any], progress: ProgressLike = False) -> Memory:
        """The memory whose rows were stored with these settings."""
        from twofold import BM25, Memory, MemoryConfig

        key = repr(sorted(settings.items()))
        if key not in self._stored:
            bm25 = {name: value for name, value in settings.items() if name in bm25_settings()}
            config = MemoryConfig(**{name: value for name, value in settings.items() if name not in bm25})
            sparse = BM25(self._language, **bm25)
            memory = Memory.open(":memory:", user=_USER, dense=self._dense, sparse=sparse, config=config)
            self._stored[key] = memory
            ids = memory.remember_many([_fields(document) for document in self._documents], progress=progress)
            self._ids = _documents_of(ids, self._documents)
        return self._stored[key]


def stored_settings() -> tuple[str, ...]:
    """The settings of a memory that decide what is stored or read once: each combination needs a memory of its own."""
    from twofold.memory.config import SETTLED

    return SETTLED


def _arguments() -> tuple[str, ...]:
    from twofold import Memory

    return tuple(name for name in inspect.signature(Memory.recall).parameters if name not in ("self", "query", "k"))


def _fields(document: Document) -> dict[str, Any]:
    """A document as `remember_many` takes it."""
    own = {name: document.metadata[name] for name in _OWN if name in document.metadata}
    rest = {name: value for name, value in document.metadata.items() if name not in own}
    return {"text": document.text, **own, "metadata": rest}


def _documents_of(ids: Sequence[Any], documents: Sequence[Document]) -> dict[str, list[str]]:
    """For each memory the documents it stands for: the same text twice is one memory."""
    found: dict[str, list[str]] = defaultdict(list)
    for identity, document in zip(ids, documents, strict=True):
        found[str(identity)].append(str(document.id))
    return dict(found)
