"""LangGraph: `QdrantStore`, a long-term store for graphs with hybrid search, on any Qdrant engine."""

try:
    import langgraph.store.base  # noqa: F401 - only to say which extra is missing
except ImportError as error:
    raise ImportError('twofold.langgraph needs LangGraph: pip install "twofold[langgraph]"') from error

from twofold.langgraph.items import ExplainedItem
from twofold.langgraph.store import QdrantStore

__all__ = ["ExplainedItem", "QdrantStore"]
