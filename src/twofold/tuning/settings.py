"""A fusion as plain values, to be kept with a collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twofold.fusion import Auto, Rrf, Strategy, resolve


def describe(fusion: Strategy) -> dict[str, Any]:
    """The values that make a fusion."""
    kept: dict[str, Any] = {"name": fusion.name, "weights": list(fusion.weights)}
    return {**kept, "k": fusion.k} if isinstance(fusion, Rrf) else kept


def restore(kept: Mapping[str, Any]) -> Strategy:
    """The fusion that these values make."""
    fusion = resolve(kept["name"])
    changes: dict[str, Any] = {"weights": tuple(kept["weights"])}
    if isinstance(fusion, Rrf):
        changes["k"] = kept["k"]
    if isinstance(fusion, Auto):
        changes["chosen"] = True
    return replace(fusion, **changes)
