"""Two people with a token each, on one store: nobody reads or writes what is not theirs, whichever way they come.

Random operations through `Memory`, the tools and HTTP clients, against a plain table of what belongs to whom. Every
text carries a secret of its owner, so that a leak shows wherever in an answer it is. TWOFOLD_ISOLATION_OPERATIONS sets
how many operations (10,000 for a thorough run).
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx
import pytest

from tests.mcp.serving import client_of, serving
from tests.mcp.talking import HELLO, ask
from twofold import Memory
from twofold.errors import TwofoldError
from twofold.mcp import Client, create_servers
from twofold.testing import fake_memory
from twofold.tools import acall

OPERATIONS = int(os.environ.get("TWOFOLD_ISOLATION_OPERATIONS", "150"))
# Users and projects with each other's names; both work on "apollo", each on one more, and nobody on "hermes".
TOKENS = {
    "token-of-ada": Client(user="ada", projects=("apollo", "bob")),
    "token-of-bob": Client(user="bob", projects=("apollo", "ada")),
}
PROJECTS = (None, None, "apollo", "ada", "bob", "hermes")
WORDS = ("tunnel", "cache", "gateway", "certificate", "deploy")
SECRET = re.compile(r"secret-\w+-\w+")


class Answer(NamedTuple):
    """What came back: the ids and texts of memories, whether it was refused, and everything that was said."""

    refused: bool
    ids: list[str]
    said: str


Ask = Callable[..., Awaitable[Answer]]


@dataclass
class Row:
    """A memory as it should be."""

    owner: tuple[str, str]
    text: str


@dataclass(frozen=True)
class Hand:
    """A way in, for one of the two."""

    way: str
    client: Client
    ask: Ask

    def sees(self, owner: tuple[str, str]) -> bool:
        kind, name = owner
        return name == self.client.user if kind == "user" else name in self.client.projects


def _ids(data: dict[str, Any]) -> list[str]:
    found = data.get("memories") or data.get("similar") or ([data["memory"]] if "memory" in data else [])
    own = [data["id"]] if "id" in data else data.get("forgotten", [])
    return [*own, *(each["id"] for each in found)]


def by_tools(memory: Memory) -> Ask:
    async def asked(name: str, **arguments: Any) -> Answer:
        result = await acall(memory, name, arguments)
        return Answer(result.is_error, _ids(dict(result.data)), result.text + json.dumps(result.data))

    return asked


def by_http(session: Any) -> Ask:
    async def asked(name: str, **arguments: Any) -> Answer:
        result = await ask(session, name, **arguments)
        return Answer(result["isError"], _ids(result.get("structuredContent", {})), json.dumps(result))

    return asked


def by_methods(memory: Memory) -> Ask:
    """The methods of `Memory`, under the names of the tools."""

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        project = arguments.pop("project", None)
        view = memory if project is None else memory.in_project(project)
        if name == "memory_save":
            stored = await view.aremember(arguments["text"])
            return [await view.aget(each) for each in (stored, *(near.id for near in stored.similar))]
        if name == "memory_update":
            return [await view.aupdate(arguments["id"], text=arguments["text"])]
        if name == "memory_forget":
            known = [each for each in arguments["ids"] if await view.aget(each)]
            await view.aforget(arguments["ids"])
            return known or None
        if name == "memory_feedback":
            await view.afeedback(arguments["query"], arguments["id"], arguments["useful"])
            return []
        if name == "memory_list":
            return list(await view.alist(limit=50))
        return [hit.memory for hit in await view.arecall(arguments["query"], 50)]

    async def asked(name: str, **arguments: Any) -> Answer:
        try:
            found = await call(name, arguments)
        except TwofoldError as error:
            return Answer(True, [], str(error))
        ids = [each if isinstance(each, str) else each.id for each in found or [] if each is not None]
        return Answer(found is None, ids, repr(found))

    return asked


@asynccontextmanager
async def hands(store: Memory, url: str) -> AsyncIterator[list[Hand]]:
    """Every way in, for each of the two. Another way, such as another process, is one more `Ask` for each of them."""
    async with AsyncExitStack() as stack:
        made = []
        for token, client in TOKENS.items():
            view = store.for_user(client.user, projects=client.projects)
            session = await stack.enter_async_context(client_of(url, token))
            ways = {"Memory": by_methods(view), "tools": by_tools(view), "HTTP": by_http(session)}
            made += [Hand(way, client, one) for way, one in ways.items()]
        yield made


class Table:
    """What there is and whose it is, and the checks of every answer."""

    def __init__(self, random_: random.Random) -> None:
        self.rows: dict[str, Row] = {}
        self.gone: list[str] = []
        self.random = random_
        self.crossed: list[str] = []
        self.done = 0

    def text(self, owner: tuple[str, str]) -> str:
        return f"{self.random.choice(WORDS)} {self.random.randrange(40)} secret-{owner[0]}-{owner[1]}"

    def any_id(self) -> str:
        return self.random.choice([*self.rows, *self.gone[-5:]] or ["7a4e1a5e-0000-4000-8000-000000000000"])

    def check(self, hand: Hand, answer: Answer, *, secret_of: tuple[str, str] | None = None) -> None:
        """Nothing in the answer is somebody else's; a word that the caller wrote itself tells nothing."""
        self.done += 1
        own = None if secret_of is None else f"secret-{secret_of[0]}-{secret_of[1]}"
        for secret in set(SECRET.findall(answer.said)) - {own}:
            _, kind, name = secret.split("-")
            if not hand.sees((kind, name)):
                self.crossed.append(f"{hand.way} of {hand.client.user} read {secret}")
        for identity in answer.ids:
            row = self.rows.get(identity)
            if row is None or not hand.sees(row.owner):
                self.crossed.append(f"{hand.way} of {hand.client.user} was given {identity}: {row}")

    # --- operations ---

    async def save(self, hand: Hand) -> None:
        project = self.random.choice(PROJECTS)
        owner = ("user", hand.client.user) if project is None else ("project", project)
        text = self.text(owner)
        answer = await hand.ask("memory_save", text=text, **({} if project is None else {"project": project}))
        assert answer.refused is not hand.sees(owner), (hand.way, owner, answer)
        if not answer.refused:
            identity = answer.ids[0]
            known = self.rows.get(identity)
            assert known is None or known.owner == owner, "an id of somebody else"
            self.rows[identity] = Row(owner, text)
        self.check(hand, answer, secret_of=owner)

    async def find(self, hand: Hand) -> None:
        project = self.random.choice(PROJECTS)
        narrowed = {} if project is None else {"project": project}
        query = f"{self.random.choice(WORDS)} {self.random.randrange(40)}"
        name = self.random.choice(["memory_search", "memory_list"])
        most = {} if hand.way == "Memory" else {"max_results": 50}
        arguments = {"query": query, **most} if name == "memory_search" else most
        answer = await hand.ask(name, **arguments, **narrowed)
        self.check(hand, answer)
        assert answer.refused is (project is not None and project not in hand.client.projects), (hand.way, project)
        if name == "memory_list" and not answer.refused:
            seen = {i for i, row in self.rows.items() if self._in_view(hand, project, row.owner)}
            assert set(answer.ids) <= seen
            assert len(answer.ids) == min(50, len(seen)), (hand.way, project)

    def _in_view(self, hand: Hand, project: str | None, owner: tuple[str, str]) -> bool:
        return hand.sees(owner) if project is None else owner == ("project", project)

    async def update(self, hand: Hand) -> None:
        identity = self.any_id()
        row = self.rows.get(identity)
        text = self.text(row.owner if row else ("user", hand.client.user))
        answer = await hand.ask("memory_update", id=identity, text=text)
        if not answer.refused:
            if row is None or not hand.sees(row.owner):
                self.crossed.append(f"{hand.way} of {hand.client.user} changed {identity}: {row}")
            else:
                row.text = text
        else:  # not there for them, or the text of another memory
            others = [each for i, each in self.rows.items() if i != identity and row and each.owner == row.owner]
            assert row is None or not hand.sees(row.owner) or text in [each.text for each in others], answer
        self.check(hand, answer, secret_of=row.owner if row else None)

    async def forget(self, hand: Hand) -> None:
        ids = list(dict.fromkeys(self.any_id() for _ in range(3)))
        visible = {i for i in ids if i in self.rows and hand.sees(self.rows[i].owner)}
        answer = await hand.ask("memory_forget", ids=ids)
        assert answer.refused is not bool(visible), (hand.way, answer)
        if set(answer.ids) != visible:
            self.crossed.append(f"{hand.way} of {hand.client.user} forgot {answer.ids} of {ids}")
        self.check(hand, answer)
        for identity in visible:
            del self.rows[identity]
            self.gone.append(identity)

    async def judge(self, hand: Hand) -> None:
        identity = self.any_id()
        answer = await hand.ask("memory_feedback", query="tunnel", id=identity, useful=True)
        row = self.rows.get(identity)
        assert answer.refused is not (row is not None and hand.sees(row.owner)), (hand.way, answer)


def compare(store: Memory, table: Table) -> None:
    """What is really stored is what the table says: nobody wrote where they may not."""
    for owner, view in (
        *((("user", name), store.for_user(name)) for name in ("ada", "bob", "apollo", "hermes")),
        *((("project", n), store.for_user("x", projects=n).in_project(n)) for n in ("apollo", "ada", "bob", "hermes")),
    ):
        expected = {i: row.text for i, row in table.rows.items() if row.owner == owner}
        assert {item.id: item.text for item in view.list(limit=10_000)} == expected, owner


async def test_nobody_reads_or_writes_what_is_not_theirs() -> None:
    table = Table(random.Random(18))
    operations = (table.save, table.save, table.find, table.find, table.update, table.forget, table.judge)
    with fake_memory() as store, serving(create_servers(store, TOKENS)) as url:
        async with hands(store, url) as every:
            while table.done < OPERATIONS:
                await table.random.choice(operations)(table.random.choice(every))
                if table.done % 500 == 0:
                    compare(store, table)
        compare(store, table)
    print(f"{table.done:,} operations by {len(every)} ways in, {len(table.crossed)} crossed over")
    assert table.crossed == []


def test_a_session_is_of_its_token_alone() -> None:
    accept = {"accept": "application/json, text/event-stream"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    def headers(token: str, **more: str) -> dict[str, str]:
        return {**accept, "authorization": f"Bearer {token}", **more}

    with fake_memory() as store, serving(create_servers(store, TOKENS)) as url:
        begun = httpx.post(url, json=HELLO, headers=headers("token-of-ada"))
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        for method in ("POST", "GET", "DELETE"):
            body = call if method == "POST" else None
            stolen = httpx.request(method, url, json=body, headers=headers("token-of-bob", **session))
            assert stolen.status_code in (400, 404), method
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert httpx.post(url, json=ready, headers=headers("token-of-ada", **session)).status_code == 202
        assert httpx.post(url, json=call, headers=headers("token-of-ada", **session)).status_code == 200
        for wrong in ("token-of", "token-of-ad", "token-of-adaa", "TOKEN-OF-ADA", "token-of-ada token-of-bob"):
            assert httpx.post(url, json=HELLO, headers=headers(wrong)).status_code == 401


@pytest.mark.parametrize("write", [True, False])
async def test_a_token_says_what_may_be_done(write: bool) -> None:
    tokens = {"reader": Client(user="ada", projects=("apollo",), write=write), **TOKENS}
    with fake_memory() as store, serving(create_servers(store, tokens)) as url:
        kept = store.for_user("ada", projects="apollo").in_project("apollo").remember("The tunnel of Apollo")
        async with client_of(url, "reader") as session:
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            assert set(tools) == {"memory_search", "memory_list"} | (
                {"memory_save", "memory_update", "memory_forget", "memory_feedback"} if write else set()
            )
            found = await ask(session, "memory_search", query="tunnel", project="apollo")
            assert [each["project"] for each in found["structuredContent"]["memories"]] == ["apollo"]
            done = await ask(session, "memory_forget", ids=[kept])
            assert done["isError"] is not write
            assert (store.for_user("ada", projects="apollo").get(kept) is None) is write
