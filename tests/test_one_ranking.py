"""The same query gives the same ids in the same order, whichever way it is asked.

Signals are neutral here (no tags, equal ages, no counting, no floor), so that even the index underneath, which knows
nothing of memories, has to rank as `Memory` does.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import ClientSession
from mcp.shared.memory import create_client_server_memory_streams

from tests.cli.runs import run
from twofold import Memory, MemoryConfig
from twofold import langchain as lc
from twofold import llamaindex as li
from twofold.mcp import create_server
from twofold.tools import memory_tools

K = 10
WHERE = {"shelf": "memory:ada"}
NEUTRAL = MemoryConfig(min_score=None, touch=False, typos=False, fields={})
# So many that their words would count in how rare Ada's are, were they not left out.
BOBS = [
    "Bob's tunnel forwards port 8080.",
    "ERR_CONN_RESET cost Bob a whole evening.",
    "Bob keeps a database of every train that he ever took.",
    "The proxy in Bob's garden is a hedgehog made of clay.",
    "Bob never drinks coffee on Fridays.",
]
TEXTS = """\
checkRateLimit() rejects a client after 100 requests a minute.
ERR_CONN_RESET appears when the proxy closes idle connections.
ERR_CONN_REFUSED means that nothing listens on that port.
Rathole tunnels listen on port 2333 and forward to the home server.
Heartbeats every 30 seconds keep a tunnel open.
migration_032 adds the column last_seen to the table users.
migration_033 drops the column nickname.
Backups of the database run at four in the morning.
The nightly job that copies the database takes twenty minutes.
Deploys happen on Thursdays, never before a holiday.
We chose Postgres for the billing service.
The billing service sends invoices on the first of the month.
Ana drinks oat milk only; dairy makes her ill.
Ben is allergic to walnuts.
The coffee machine in the kitchen is cleaned each Friday.
Ada prefers trains to planes.
The hotel in Porto is the blue one by the river.
Our train to Porto leaves at 9:40 from platform 3.
The staging server is called hedgehog.
Hedgehog has 32 gigabytes of memory and two cores.
A hedgehog sleeps in the garden under the oak.
The garden gets its water at six in the evening.
The TLS certificate of the proxy runs out in March.
parse_config() reads settings.toml and complains about unknown keys.
The logs are kept for thirty days, then they are deleted.
Ticket OPS-417: the queue of outgoing mail grows without end.
Ticket OPS-471: dashboards load slowly on Mondays.
The mail server refuses attachments above ten megabytes.
Mia's birthday is on the ninth of May.
The alarm code of the office is known to Mia and Ben.""".splitlines()
QUERIES = """\
checkRateLimit
how many calls may a client make?
ERR_CONN_RESET
connection was cut off by the proxy
which port does the tunnel use?
tunnel
migration_032
what happened to the nickname column?
when is the data copied?
database
which day do we release?
invoices
can Ana have a cappuccino?
who must not eat nuts?
how do we get to Porto?
hedgehog
OPS-471
why do e-mails get stuck?
settings.toml
zebras in Kenya""".splitlines()

Rankings = list[list[str]]


@dataclass(frozen=True)
class Place:
    memory: Memory
    copy: Path
    """The same folder once more, closed: a folder is open in one process at a time, and the command opens its own."""


Surface = Callable[[Place], Awaitable[Rankings]]


async def index_search(place: Place) -> Rankings:
    return [list(place.memory.index.search(query, K, filter=WHERE).ids) for query in QUERIES]


async def index_asearch(place: Place) -> Rankings:
    return [list((await place.memory.index.asearch(query, K, filter=WHERE)).ids) for query in QUERIES]


async def recall(place: Place) -> Rankings:
    return [list(place.memory.recall(query, K).ids) for query in QUERIES]


async def recall_explained(place: Place) -> Rankings:
    return [list(place.memory.recall(query, K, explain=True).ids) for query in QUERIES]


async def arecall_at_once(place: Place) -> Rankings:
    return [list(found.ids) for found in await asyncio.gather(*(place.memory.arecall(q, K) for q in QUERIES))]


async def langchain_index(place: Place) -> Rankings:
    retriever = lc.HybridRetriever(index=place.memory.index, k=K, filter=WHERE)
    return [[str(document.id) for document in retriever.invoke(query)] for query in QUERIES]


async def langchain_index_async(place: Place) -> Rankings:
    retriever = lc.HybridRetriever(index=place.memory.index, k=K, filter=WHERE)
    return [[str(document.id) for document in await retriever.ainvoke(query)] for query in QUERIES]


async def langchain_memory(place: Place) -> Rankings:
    retriever = lc.HybridRetriever(memory=place.memory, k=K)
    return [[str(document.id) for document in retriever.invoke(query)] for query in QUERIES]


async def langchain_memory_async(place: Place) -> Rankings:
    retriever = lc.HybridRetriever(memory=place.memory, k=K)
    return [[str(document.id) for document in await retriever.ainvoke(query)] for query in QUERIES]


async def langchain_vector_store(place: Place) -> Rankings:
    store = lc.HybridVectorStore(place.memory.index)
    return [[str(each.id) for each in store.similarity_search(query, K, filter=WHERE)] for query in QUERIES]


async def llamaindex_index(place: Place) -> Rankings:
    retriever = li.HybridRetriever(index=place.memory.index, similarity_top_k=K, filters=WHERE)
    return [[found.node_id for found in retriever.retrieve(query)] for query in QUERIES]


async def llamaindex_index_async(place: Place) -> Rankings:
    retriever = li.HybridRetriever(index=place.memory.index, similarity_top_k=K, filters=WHERE)
    return [[found.node_id for found in await retriever.aretrieve(query)] for query in QUERIES]


async def llamaindex_memory(place: Place) -> Rankings:
    retriever = li.HybridRetriever(memory=place.memory, similarity_top_k=K)
    return [[found.node_id for found in retriever.retrieve(query)] for query in QUERIES]


async def llamaindex_memory_async(place: Place) -> Rankings:
    retriever = li.HybridRetriever(memory=place.memory, similarity_top_k=K)
    return [[found.node_id for found in await retriever.aretrieve(query)] for query in QUERIES]


async def tool(place: Place) -> Rankings:
    search = memory_tools(place.memory, only=["memory_search"])[0]
    return [_told(search.run(query=query, max_results=K).data) for query in QUERIES]


async def tool_async(place: Place) -> Rankings:
    search = memory_tools(place.memory, only=["memory_search"])[0]
    return [_told((await search.arun(query=query, max_results=K)).data) for query in QUERIES]


async def mcp_server(place: Place) -> Rankings:
    server = create_server(place.memory)
    async with create_client_server_memory_streams() as (near, far), ClientSession(*near) as session:
        serving = asyncio.ensure_future(server.run(*far, server.create_initialization_options()))
        await session.initialize()
        asked = [{"query": query, "max_results": K} for query in QUERIES]
        answers = [await session.call_tool("memory_search", each) for each in asked]
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return [_told(answer.model_dump(by_alias=True)["structuredContent"]) for answer in answers]


async def command_line(place: Place) -> Rankings:
    options = ("-k", K, "--json", "--location", place.copy, "--collection", "memories", "--filter", json.dumps(WHERE))
    return [[hit["id"] for hit in run("search", query, *options).json["hits"]] for query in QUERIES]


def _told(answer: object) -> list[str]:
    assert isinstance(answer, dict)
    return [each["id"] for each in answer["memories"]]


SURFACES: list[Surface] = [
    index_asearch,
    recall,
    recall_explained,
    arecall_at_once,
    langchain_index,
    langchain_index_async,
    langchain_memory,
    langchain_memory_async,
    langchain_vector_store,
    llamaindex_index,
    llamaindex_index_async,
    llamaindex_memory,
    llamaindex_memory_async,
    tool,
    tool_async,
    mcp_server,
    command_line,
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("one-ranking")
    with Memory.open(folder / "store", user="ada", config=NEUTRAL) as memory:
        memory.remember_many([{"text": text, "created": "2026-02-21"} for text in TEXTS])
        memory.for_user("bob").remember_many(BOBS)
    shutil.copytree(folder / "store", folder / "copy")
    with Memory.open(folder / "store", user="ada", config=NEUTRAL) as memory:
        yield Place(memory, folder / "copy")


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: str(surface.__name__))
async def test_every_surface_ranks_alike(surface: Surface, place: Place) -> None:
    expected = await index_search(place)
    found = await surface(place)
    differing = {q: (a, b) for q, a, b in zip(QUERIES, expected, found, strict=True) if a != b}
    assert not differing


async def test_there_is_something_to_agree_on(place: Place) -> None:
    """Twenty queries with rankings of their own, all of ten hits; neither leg alone would give them."""
    expected = await index_search(place)
    assert len({tuple(ids) for ids in expected}) == len(QUERIES) == 20
    assert all(len(ids) == K for ids in expected)
    for alpha in (0.0, 1.0):
        alone = [list(place.memory.index.search(query, K, filter=WHERE, alpha=alpha).ids) for query in QUERIES]
        assert sum(one != other for one, other in zip(alone, expected, strict=True)) >= len(QUERIES) / 5
