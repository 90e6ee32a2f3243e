"""Twofold for LangChain: a retriever, a vector store, tools and middleware for agents.

    from twofold.langchain import HybridRetriever, HybridVectorStore, MemoryMiddleware, memory_tools

The middleware needs the package `langchain`; everything else only `langchain-core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise ImportError('twofold.langchain needs LangChain: pip install "twofold[langchain]"') from error

from twofold.langchain.retriever import HybridRetriever, memory_tools
from twofold.langchain.vectorstore import HybridTranslator, HybridVectorStore

if TYPE_CHECKING:
    from twofold.langchain.middleware import MemoryMiddleware

__all__ = ["HybridRetriever", "HybridTranslator", "HybridVectorStore", "MemoryMiddleware", "memory_tools"]


def __getattr__(name: str) -> Any:
    if name == "MemoryMiddleware":  # what it needs is heavier, and not everybody has it
        from twofold.langchain.middleware import MemoryMiddleware

        return MemoryMiddleware
    raise AttributeError(f"module 'twofold.langchain' has no attribute {name!r}")
