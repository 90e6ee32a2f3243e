"""Who may come in over HTTP: each token with its user, projects and rights, and a server for each.

A client gets the server of its token and no other: neither an argument nor a session's id leads beyond it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.lowlevel import Server
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from typing_extensions import Unpack

from twofold.errors import ConfigError
from twofold.mcp.server import create_server
from twofold.tools import LazyMemory, ToolOptions

if TYPE_CHECKING:
    from twofold.memory import Memory

EXAMPLE = '{"a long random token": {"user": "ada", "projects": ["apollo"], "write": true}}'


def _check_name(name: str) -> str:
    if not name.strip():
        raise ValueError("must be a name")
    return name


def _as_tuple(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


Name = Annotated[str, AfterValidator(_check_name)]


class Client(BaseModel):
    """What a token allows."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    user: Name
    projects: Annotated[tuple[Name, ...], BeforeValidator(_as_tuple)] = ()
    """The projects that it sees and, if it may write, stores for."""
    agent: Name | None = None
    """Whose memories of the user's it works with, besides the general ones; None for all."""
    write: bool = True
    """Without, it has only the tools that change nothing."""


def check_token(token: str) -> str:
    """A token that a header can carry; the error doesn't repeat it."""
    if not token.strip():
        raise ConfigError("the token is empty, so anybody could come in: give a long random one, or none on 127.0.0.1")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError("a token has letters, digits and signs of ASCII only, and no blanks: make another one")
    return token


def read_clients(path: str | Path) -> dict[str, Client]:
    """The clients in a JSON file, by token. What is wrong there is told without repeating a token."""
    try:
        entries = json.loads(Path(path).expanduser().read_text("utf-8"), object_pairs_hook=list)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the tokens in {path} can't be read ({type(error).__name__}): write {EXAMPLE}") from None
    # Objects are lists of pairs, so that a token that stands there twice isn't silently the last one.
    if not isinstance(entries, list) or not entries or not all(isinstance(each, tuple) for each in entries):
        raise ConfigError(f"{path} must hold an object with a token or more: write {EXAMPLE}")
    if len({token for token, _ in entries}) < len(entries):
        raise ConfigError(f"a token stands twice in {path}: give each client one of its own")
    numbered = enumerate(entries, 1)
    return {token: _client(token, fields, f"entry {number} of {path}") for number, (token, fields) in numbered}


def _client(token: str, fields: Any, where: str) -> Client:
    try:
        check_token(token)
        return Client.model_validate(dict(fields))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        reasons = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong)
        raise ConfigError(f"{where}: {reasons}. Write it as in {EXAMPLE}") from None
    except (TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, ConfigError) else f"it must be an object, as in {EXAMPLE}"
        raise ConfigError(f"{where}: {reason}") from None


def create_servers(
    memory: Memory | LazyMemory | Callable[[], Memory],
    clients: Mapping[str, Client],
    *,
    name: str = "twofold",
    **options: Unpack[ToolOptions],
) -> dict[str, Server[Any]]:
    """A server for each token, on one store. `http_app` and `serve_http` take them.

    Args:
        memory: Any memory in the store, or a function that opens one: each client has a view of its own of it.
        clients: By token, what it allows; `read_clients` reads them from a file.
        name: How the servers introduce themselves.
        options: Those of `twofold.tools.memory_tools`, for all of them.
    """
    if not clients:
        raise ConfigError("there is no client: give at least one token with its user")
    store = LazyMemory(memory) if callable(memory) else memory
    servers = {}
    for token, client in clients.items():
        view = LazyMemory(_opener(store, client), projects=client.projects)
        rights = ToolOptions(**{**options, "read_only": options.get("read_only", False) or not client.write})
        servers[check_token(token)] = create_server(view, name=name, **rights)
    return servers


def _opener(store: Memory | LazyMemory, client: Client) -> Callable[[], Memory]:
    def view() -> Memory:
        memory = store.get() if isinstance(store, LazyMemory) else store
        return memory.for_user(client.user, agent=client.agent, projects=client.projects)

    return view
