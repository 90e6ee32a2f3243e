"""Memory as an MCP server, for every client that speaks the Model Context Protocol.

    server = create_server(memory)
    serve_stdio(server)      # one client, the one that started this process
    serve_http(server)       # any number of clients
    serve_http(create_servers(memory, read_clients("tokens.json")))  # each with its own user, projects and rights

Runs with version 1 and version 2 of the `mcp` package.
"""

from __future__ import annotations

try:
    import mcp  # noqa: F401
except ImportError as error:
    raise ImportError('the MCP server needs the mcp package: pip install "twofold[mcp]"') from error

from twofold.mcp.clients import Client, create_servers, read_clients
from twofold.mcp.http import http_app, serve_http
from twofold.mcp.server import create_server, serve_stdio

__all__ = ["Client", "create_server", "create_servers", "http_app", "read_clients", "serve_http", "serve_stdio"]
