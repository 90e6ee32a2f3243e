"""The kit on a real server."""

from __future__ import annotations

import os

import pytest
from qdrant_client import QdrantClient


@pytest.mark.server
def test_a_real_server_takes_part() -> None:
    """With QDRANT_URL set, every case and the random walk run there too; this one only says so."""
    url = os.environ.get("QDRANT_URL")
    if not url:
        pytest.skip("no QDRANT_URL: the kit ran on local mode, the embedded engine and HTTP only")
    assert QdrantClient(url=url, timeout=30).info().version
