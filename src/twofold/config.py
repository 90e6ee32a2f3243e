"""Settings, validated once, never changed afterwards."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from twofold.encoders.rerankers import as_reranker
from twofold.ranking.fusion import Strategy, resolve


class SearchConfig(BaseModel):
    """How an index searches when a call doesn't say otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    fusion: Annotated[Strategy, BeforeValidator(resolve)] = Field(default_factory=lambda: resolve("auto"))
    """The strategy, by name or as a `Fusion` value."""
    depth: int = Field(default=200, ge=1, le=100_000)
    """How many candidates each leg brings. `auto` takes 30 of each at the most, and scores all of them by both. Grows
    by itself for pages beyond it."""
    min_score: float | None = None
    """Hits of less relevance, from 0 to 1, are left out."""
    min_semantic: float | None = None
    """The dense leg leaves out candidates below this cosine similarity."""
    min_lexical: float | None = None
    """The lexical leg leaves out candidates below this BM25 score."""
    native: bool = True
    """Let the engine fuse when it computes exactly what was asked; False always fuses here."""
    hnsw_ef: int | None = Field(default=64, ge=1)
    """Effort of the approximate search; the engine raises it to the depth."""
    exact: bool = False
    """Compare with every vector instead of using the HNSW graph."""
    typos: bool = True
    """Read a word that is none, and that no document has, as the nearest one that some document has."""
    text_fallback: bool = True
    """When neither leg can answer, match the query's words in the stored text."""
    auto_index: bool = True
    """Create a payload index the first time strings, booleans or words of a field are filtered on."""
    rerank: Annotated[Any, AfterValidator(as_reranker)] = None
    """Looks at the best candidates once more: the name of a fastembed cross-encoder, a LangChain compressor, a
    LlamaIndex postprocessor, or a function of (query, texts) that gives one score for each text."""
    rerank_top: int = Field(default=30, ge=1, le=1000)
    """How many of the best the reranker looks at. Those behind them follow in their order."""
    rerank_timeout: float = Field(default=30.0, gt=0)
    """Seconds that a reranker may take. If it takes longer or fails, the ranking before it stands, and says so."""
    max_query_chars: int = Field(default=32_768, ge=1)
    """Longer queries are cut, and say so in `degraded`."""
    log_queries: bool = False
    """Let the log of searches show the first 100 characters of each query, which may be private."""


class CollectionSettings(BaseModel):
    """How a new collection is laid out. Only used when the collection is created."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    hnsw_m: int = Field(default=16, ge=0)
    """Edges per node of the HNSW graph."""
    hnsw_ef_construct: int = Field(default=200, ge=4)
    """Effort of building the HNSW graph."""
    on_disk: bool = False
    """Keep vectors and their index on disk instead of in memory."""
    quantization: Literal["scalar", "binary"] | Any | None = None
    """"scalar", "binary", or a `qdrant_client.models` quantisation config."""
    shard_number: int | None = Field(default=None, ge=1)
    """Number of shards, on a cluster."""
    replication_factor: int | None = Field(default=None, ge=1)
    """Copies of each shard, on a cluster."""
    write_consistency_factor: int | None = Field(default=None, ge=1)
    """Copies that must confirm a write, on a cluster."""
    dense: str | None = None
    """The dense model, by word or name, where `open` isn't given one; "fast" by default."""
    text_index: bool = False
    """Index the words of the stored texts too, so that the last fallback (matching words in the text) is quick."""
    payload_indexes: dict[str, str] = Field(default_factory=dict)
    """Metadata fields to index from the start, as {"year": "integer"}; "tenant" is a keyword that tells users apart."""
