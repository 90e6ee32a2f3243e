"""A search that has been asked for: its arguments, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from qdrant_client import models

from twofold.config import SearchConfig
from twofold.errors import InvalidQuery
from twofold.filters import Node
from twofold.fusion import Strategy, resolve

_MOST = 1_000_000


@dataclass(frozen=True)
class Query:
    """A search that has been checked."""

    text: str
    k: int
    offset: int
    where: Node | models.Filter | None
    fusion: Strategy
    config: SearchConfig
    """Everything else; its own `fusion` has been replaced by the one above."""
    explain: bool

    @property
    def need(self) -> int:
        """How many rows of the ranking are needed."""
        return self.offset + self.k


def _overridden(config: SearchConfig, given: Mapping[str, Any]) -> SearchConfig:
    if "fusion" in given:
        given = {**given, "fusion": resolve(given["fusion"])}
    try:
        return SearchConfig(**{**dict(config), **given})
    except ValidationError as error:
        wrong = "; ".join(f"{e['loc'][0]}: {e['msg']}, got {e['input']!r}" for e in error.errors())
        raise InvalidQuery(wrong) from error


def check_query(
    query: object,
    *,
    k: int,
    offset: int,
    where: Node | models.Filter | None,
    config: SearchConfig,
    overrides: Mapping[str, Any],
    explain: bool,
) -> Query:
    """Arguments of a search, checked; those that are None keep the configured value."""
    if not isinstance(query, str):
        raise InvalidQuery(f"the query must be a string, got {type(query).__name__}")
    for name, value in (("k", k), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
            raise InvalidQuery(f"{name} must be a whole number from 0 to {_MOST:,}, got {value!r}")
    given = {name: value for name, value in overrides.items() if value is not None}
    alpha = given.pop("alpha", None)
    if given:
        config = _overridden(config, given)
    fusion = config.fusion if alpha is None else config.fusion.with_alpha(alpha)
    return Query(text=query, k=k, offset=offset, where=where, fusion=fusion, config=config, explain=explain)
