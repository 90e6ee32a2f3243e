"""Documents and memories to be taken elsewhere, and everything that a store answers about them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from twofold import Document, HybridIndex, Memory, SearchResult

WORDS = re.findall(
    r"\S+",
    "tunnel port proxy heartbeat token nginx rathole server client config rate limit checkRateLimit ERR_CONN_RESET "
    "cache index vector memory coffee oat milk garden Matrix replicant wormhole migration_032 backup folder cluster",
)
_BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def sentence(seed: object) -> str:
    chance = random.Random(str(seed))
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(4, 14)))


def documents(number: int) -> Iterator[Document]:
    """Plain ones, titled ones, parts of pages, some without a text, with metadata of every kind."""
    for n in range(number):
        metadata: dict[str, Any] = {"n": n, "année": "été", "tags": [f"t{n % 5}"], "deep": {"x": n / 7, "none": None}}
        if n % 10 == 3:
            yield Document(sentence(n), f"page#{n}", metadata, part_of=f"page{n // 50}", position=n // 10 % 5)
        else:
            text = "" if n % 97 == 5 else f"{sentence(n)} number{n}"
            yield Document(text, f"document {n}", metadata, title=sentence(-n) if n % 4 == 0 else None)


def questions(number: int) -> list[str]:
    return [sentence(f"question {n}") for n in range(number)]


def fill(memory: Memory, users: int, each: int) -> None:
    """Memories with every field, turns, logs, feedback and what was learned from it, recalls, agents and sessions."""
    for user in range(users):
        own = memory.for_user(f"user {user}")
        ids = own.remember_many(
            {
                "text": f"{sentence((user, n))} of {user}",
                "type": ("note", "fact", "link")[n % 3],
                "category": f"c{n % 4}",
                "tags": [WORDS[(user + n) % len(WORDS)], "straße"],
                "metadata": {"project": f"p{n % 3}"},
                "source": f"file{n % 2}.md",
                "trust": ("web", "tool", "agent", "user", "system")[n % 5],
                "pinned": n % 11 == 0,
                "importance": n % 10 / 10,
                "created": _BEGAN + timedelta(hours=n),
            }
            for n in range(each)
        )
        own.remember(f"{sentence(user)} instead of {user}", supersedes=[ids[0]], created=_BEGAN)
        agent = memory.for_user(f"user {user}", agent="coder", session="s1")
        agent.remember_turns([{"role": "user", "content": sentence((user, "turn", n))} for n in range(4)])
        own.log(f"{sentence((user, 'log'))} logged", created=_BEGAN)
        for n in range(1, min(each, 6)):
            own.feedback(sentence((user, n)), ids[n], n % 3 != 0)
            own.recall(sentence((user, n)))
        if user % 2 == 0:
            own.learn()
    memory.flush()


class Answers:
    """What a search found. Engines add up a score in any order, so the last digits differ, and equal hits may swap."""

    def __init__(self, result: SearchResult) -> None:
        self.hits = [(hit.id, hit.score, hit.relevance) for hit in result]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answers) or len(self.hits) != len(other.hits):
            return False
        last = self.hits[-1][1] if self.hits else 0.0
        sure = [{identity for identity, score, _ in each.hits if score > last + 1e-4} for each in (self, other)]
        pairs = zip(self.hits, other.hits, strict=True)
        return sure[0] == sure[1] and all(
            abs(one - two) < 1e-4 for mine, theirs in pairs for one, two in zip(mine[1:], theirs[1:], strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.hits)


def told_by_index(index: HybridIndex, number: int) -> list[Any]:
    """What searches find, and every document with its vectors."""
    found = [Answers(index.search(query)) for query in questions(number)]
    found += [Answers(index.search(query, fusion="rrf", filter={"tags": "t1"})) for query in questions(number // 4)]
    return [*found, stored(index)]


def stored(index: HybridIndex) -> dict[str, Any]:
    rows = {}
    for each in index.scan(vectors=True):
        dense = None if each.dense is None else _single(each.dense)
        words = None
        if each.sparse is not None:
            words = dict(zip(each.sparse.indices, _single(each.sparse.values), strict=True))
        assert each.id not in rows
        rows[str(each.id)] = (each.text, each.title, each.metadata, dense, words)
    return rows


def _single(values: Sequence[float]) -> list[float]:
    """As 32 bits have them, however an engine writes them."""
    exact: list[float] = np.asarray(values, dtype=np.float32).tolist()
    return exact


def told_by_memory(memory: Memory, number: int) -> dict[str, Any]:
    """All that a memory says about each of its users. Recalling counts nothing here."""
    told: dict[str, Any] = {"users": memory.users()}
    for user in memory.users():
        own = memory.for_user(user)
        told[user] = [
            own.list(limit=10_000, superseded=True).items,
            own.list(limit=3, tags=["straße"], types="fact").items,
            own.logs(limit=10_000).items,
            own.stats(verify=True),
            sorted((pair.query, sorted(pair.relevant)) for pair in own.judged()),
            [(Answers(one), one.alpha, one.alpha_reason) for one in (
                own.recall(query, touch=False) for query in questions(max(1, number // len(memory.users())))
            )],
            [item.text for item in memory.for_user(user, agent="coder", session="s1").list().items],
        ]  # fmt: skip
    return told
