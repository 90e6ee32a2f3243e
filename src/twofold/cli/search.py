"""`twofold search`: ask an index, show the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twofold.cli.console import out, print_json, unrepeated
from twofold.cli.hits import show
from twofold.cli.machine import result_as_json
from twofold.cli.opening import Target
from twofold.errors import FilterError
from twofold.ranking.fusion import resolve

if TYPE_CHECKING:
    from twofold.index import HybridIndex
    from twofold.results import SearchResult


@dataclass(frozen=True)
class Request:
    """A search, as the options describe it."""

    query: str
    k: int = 10
    offset: int = 0
    filter: str | None = None
    alpha: float | None = None
    fusion: str | None = None
    min_score: float | None = None
    explain: bool = False


def run(target: Target, request: Request, *, as_json: bool) -> None:
    """Search and print."""
    where = _filter(request.filter)
    with target.open_existing() as index:
        with unrepeated():  # the answer shows them
            result = _search(index, request, where)
        empty = not result and index.count() == 0
    if as_json:
        print_json(result_as_json(result, request.offset, explain=request.explain))
        return
    if empty:
        out().print(f"collection {target.collection} holds nothing yet", soft_wrap=True)
        out().print(f"fill it: {target.command('add notes.md')}", soft_wrap=True)
        return
    show(result, offset=request.offset, explain=request.explain)


def _search(index: HybridIndex, request: Request, where: dict[str, Any] | None) -> SearchResult:
    return index.search(
        request.query,
        request.k,
        offset=request.offset,
        filter=where,
        alpha=request.alpha,
        fusion=None if request.fusion is None else resolve(request.fusion),
        min_score=request.min_score,
        explain=True,  # changes no ranking, costs no request, and tells which words to emphasise
    )


def _filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    example = """write it as '{"year": {"gte": 2010}}'"""
    try:
        where = json.loads(text)
    except ValueError as error:
        raise FilterError(f"--filter is not JSON ({error}): {example}") from error
    if not isinstance(where, dict):
        raise FilterError(f"--filter must be a JSON object: {example}")
    return where
