"""How an engine can fuse by itself: one of its own rank fusions, or a formula.

A formula is a score as arithmetic over what an engine knows about a candidate: the legs' raw scores and its payload.
Values only. Each engine translates them into its own formula language; nothing here knows any of them. What is the same
for many queries is built once (`lru_cache`), so a translator can recognise it by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from twofold.filters import Node


@dataclass(frozen=True, slots=True)
class LegScore:
    """The raw score that a leg gave the candidate; legs are numbered as in the request."""

    leg: int


@dataclass(frozen=True, slots=True)
class FieldValue:
    """The number in a metadata field, and what counts where the field is missing."""

    field: str
    default: float


@dataclass(frozen=True, slots=True)
class Holds:
    """1 where a condition on the metadata holds, 0 elsewhere."""

    condition: Node


@dataclass(frozen=True, slots=True)
class Freshness:
    """1 for a date that is now, one half after `half_life_seconds`, and so on; a missing date counts as now."""

    field: str
    now: str
    half_life_seconds: float


@dataclass(frozen=True, slots=True)
class Ramp:
    """A straight line from 0 at `zero` to 1 at 1; 0 below."""

    of: Expression
    zero: float


@dataclass(frozen=True, slots=True)
class Absolute:
    """The value without its sign."""

    of: Expression


@dataclass(frozen=True, slots=True)
class Quotient:
    """One value divided by another, which is never 0."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Sum:
    """All of them added up."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """All of them multiplied."""

    factors: tuple[Expression, ...]


Expression: TypeAlias = float | LegScore | FieldValue | Holds | Freshness | Ramp | Absolute | Quotient | Sum | Product


@dataclass(frozen=True, slots=True)
class Formula:
    """A score for every candidate that any leg brought."""

    expression: Expression
    missing: tuple[float, ...]
    """For each leg, the score that counts where it did not bring the candidate."""


@dataclass(frozen=True, slots=True)
class RrfFusion:
    """Σ 1 / (k + rank), rank from 1: the textbook form. Engines count k differently."""

    k: int


@dataclass(frozen=True, slots=True)
class DbsfFusion:
    """Distribution-based score fusion with equal weights."""


EngineFusion: TypeAlias = RrfFusion | DbsfFusion | Formula
