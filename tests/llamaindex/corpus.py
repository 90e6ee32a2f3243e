"""Notes, and questions about them."""

from __future__ import annotations

from llama_index.core.base.embeddings.base import BaseEmbedding

from twofold.testing import HashEmbedding

NOTES = {
    "rate": "checkRateLimit() rejects a client after 100 requests a minute",
    "tunnel": "Rathole tunnels listen on port 2333 and forward to the home server",
    "reset": "ERR_CONN_RESET appears when the proxy closes idle connections",
    "nightly": "The staging database is rebuilt every night at two",
    "cake": "Grandmother's apple cake needs four eggs and a cup of sugar",
    "deploy": "Deployments to production need two approvals and a green build",
    "cache": "The cache keeps answers for ten minutes unless the header says otherwise",
    "keys": "API keys are rotated every ninety days by the rotate_keys job",
    "disk": "The disk alarm fires when less than ten percent are free",
    "holiday": "The office is closed between Christmas and New Year",
    "vpn": "Use the VPN to reach the staging servers from home",
    "budget": "The budget for servers is four thousand a month",
}
QUERIES = [
    "rate limit", "which port do rathole tunnels use", "ERR_CONN_RESET", "when is the database rebuilt", "apple cake",
    "how many approvals for production", "cache minutes", "rotate_keys", "disk free percent", "christmas",
    "vpn staging", "server budget", "2333", "eggs and sugar", "the proxy closes connections", "a green build",
    "requests a minute", "home server", "every ninety days", "nothing of this kind at all",
]  # fmt: skip


class Hashing(BaseEmbedding):
    """A LlamaIndex embedding without a model."""

    model_name: str = "hashing"

    def _get_text_embedding(self, text: str) -> list[float]:
        return HashEmbedding().embed_query(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return HashEmbedding().embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def vector(text: str) -> list[float]:
    return HashEmbedding().embed_query(text)
