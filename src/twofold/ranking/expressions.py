"""How an engine can fuse by itself: one of its own rank fusions, or a formula.

A formula is a score as arithmetic over what an engine knows about a candidate: the legs' raw scores and its payload.
Values only. Each engine translates them into its own formula language; nothing here knows any of them. What is the same
for many queries is built once (`lru_cache`), so a translator can recognise it by identity. `evaluate` computes here
what an engine computes there, as far as it follows from the payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from twofold.documents import as_moment
from twofold.filters import AnyOf, Either, Equals, Node


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
class Clipped:
    """The value, but 0 below 0 and 1 above 1."""

    of: Expression


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


Expression: TypeAlias = (
    float | LegScore | FieldValue | Holds | Freshness | Clipped | Absolute | Quotient | Sum | Product
)


@dataclass(frozen=True, slots=True)
class Formula:
    """A score for every candidate that any leg brought."""

    expression: Expression
    missing: tuple[float, ...]
    """For each leg, the score that counts where it did not bring the candidate."""


@dataclass(frozen=True, slots=True)
class DbsfFusion:
    """Distribution-based score fusion with equal weights."""


EngineFusion: TypeAlias = DbsfFusion | Formula


def product(*factors: Expression) -> Product:
    """The product of all factors but those that are 1 for every document."""
    return Product(tuple(factor for factor in factors if factor != 1.0) or (1.0,))


# --- The same, computed here ---


def evaluate(expression: Expression, metadata: Mapping[str, Any]) -> float:
    """What an expression without legs comes to for a document. A field that makes no sense counts as missing."""
    if isinstance(expression, (float, int)):
        return expression
    if isinstance(expression, Product):
        product = 1.0
        for factor in expression.factors:
            product *= evaluate(factor, metadata)
            if not product:  # what is only for pinned memories isn't computed for others
                break
        return product
    if isinstance(expression, Sum):
        return sum([evaluate(term, metadata) for term in expression.terms])
    if isinstance(expression, Clipped):
        return min(max(evaluate(expression.of, metadata), 0.0), 1.0)
    if isinstance(expression, Absolute):
        return abs(evaluate(expression.of, metadata))
    if isinstance(expression, Quotient):
        return evaluate(expression.left, metadata) / evaluate(expression.right, metadata)
    return _looked_up(expression, metadata)


def _looked_up(expression: LegScore | Holds | FieldValue | Freshness, metadata: Mapping[str, Any]) -> float:
    if isinstance(expression, Holds):
        return float(holds(expression.condition, metadata))
    if isinstance(expression, FieldValue):
        number = metadata.get(expression.field)
        return number if isinstance(number, (int, float)) and not isinstance(number, bool) else expression.default
    if isinstance(expression, Freshness):
        date, now = _moment(metadata.get(expression.field)), datetime.fromisoformat(expression.now)
        return 1.0 if date is None else 0.5 ** (abs((now - date).total_seconds()) / expression.half_life_seconds)
    raise TypeError(f"{expression!r} doesn't follow from a document's metadata")


def holds(condition: Node, metadata: Mapping[str, Any]) -> bool:
    """A document has a value, or one of several, in a field or among its elements. As for engines, true is not 1."""
    if isinstance(condition, Either):
        return any(holds(part, metadata) for part in condition.parts)
    if not isinstance(condition, (Equals, AnyOf)):
        raise TypeError(f"only values of fields are compared here, not {condition!r}")
    stored: Any = metadata
    for key in condition.field.split("."):
        stored = stored.get(key) if isinstance(stored, (dict, Mapping)) else None
    wanted = (condition.value,) if isinstance(condition, Equals) else condition.values
    for element in stored if isinstance(stored, list) else (stored,):
        for value in wanted:
            if element == value and isinstance(element, bool) == isinstance(value, bool):
                return True
    return False


def _moment(value: object) -> datetime | None:
    try:
        return as_moment(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except ValueError:
        return None
