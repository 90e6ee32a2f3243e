"""The kit on a real server."""

from __future__ import annotations

import pytest

from tests.kit.engines import SERVERS, server_client


@pytest.mark.server
def test_a_real_server_takes_part() -> None:
    """With QDRANT_URL set, everything marked `server` runs there too; this one only says so."""
    if not SERVERS:
        pytest.skip("no QDRANT_URL: the tests ran on local mode, the embedded engine and HTTP only")
    assert server_client().info().version
