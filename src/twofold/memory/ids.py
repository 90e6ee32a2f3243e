"""Ids as callers give them."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.documents import point_id
from twofold.errors import InvalidQuery


def plain(identity: object) -> str:
    """An id as engines take it: what `remember` gives is more than a plain string."""
    if not isinstance(identity, str):
        raise InvalidQuery(f"an id is a string, got {identity!r}: remember(), recall() and list() give them")
    return str.__str__(identity)


def several(ids: str | Sequence[str]) -> list[str]:
    """One id or many, each once."""
    if isinstance(ids, str):
        return [plain(ids)]
    try:
        return list(dict.fromkeys(plain(identity) for identity in ids))
    except TypeError:
        raise InvalidQuery(f"give one id or a list of them, got {ids!r}") from None


def is_memory_id(identity: str) -> bool:
    """Every memory's id is a UUID; anything else can't be one's, and servers refuse to look for it."""
    return point_id(identity) == identity
