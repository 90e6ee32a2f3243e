"""LlamaIndex: a retriever, a vector store, memory tools and a memory block, all on the same hybrid search."""

try:
    import llama_index.core  # noqa: F401 - only to say which extra is missing
except ImportError as error:
    raise ImportError('twofold.llamaindex needs LlamaIndex: pip install "twofold[llamaindex]"') from error

from twofold.llamaindex.retriever import HybridMemoryBlock, HybridRetriever, memory_tools
from twofold.llamaindex.vector_store import HybridVectorStore, IndexEmbedding

__all__ = ["HybridMemoryBlock", "HybridRetriever", "HybridVectorStore", "IndexEmbedding", "memory_tools"]
