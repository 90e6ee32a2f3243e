"""The last resort: the query as it stands, looked for in the texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twofold.engine import calls
from twofold.engine.filters import compile_filter
from twofold.engine.flow import Flow
from twofold.engine.layout import Stored, from_point
from twofold.filters import Node
from twofold.index.opening import Ready
from twofold.index.queries import Query
from twofold.memory.layout import damage
from twofold.results import Explanation, Hit, Problem, SearchResult
from twofold.signals import fold

_PAGE = 256


def search(ready: Ready, query: Query, where: Node, found: SearchResult) -> Flow[SearchResult]:
    """Every memory that contains the query, the newest first; what was found before, if there is none."""
    wanted = fold(query.text.strip())
    rows: list[Stored] = []
    offset: Any = None
    while True:
        points, offset = yield from calls.page(ready.collection, compile_filter(where), _PAGE, offset)
        rows += [stored for stored in map(from_point, points) if wanted in fold(stored.text)]
        if offset is None:
            break
    if not rows:
        return found
    rows.sort(key=lambda stored: str(stored.metadata.get("updated", "")), reverse=True)
    wrong = {stored.id: damage(stored) for stored in rows}
    fit = [stored for stored in rows if wrong[stored.id] is None][query.offset : query.need]
    why = Explanation("text", None, None, 0.0, None, None, 0.0, (), 1.0) if query.explain else None
    reason = "no word matched, so the query was looked for as a part of the texts"
    return replace(
        found,
        mode="text",
        hits=tuple(Hit(stored.id, stored.text, 1.0, 1.0, stored.metadata, why) for stored in fit),
        degraded="; ".join(filter(None, [found.degraded, reason])),
        problems=tuple(Problem(identity, said) for identity, said in wrong.items() if said is not None),
    )
