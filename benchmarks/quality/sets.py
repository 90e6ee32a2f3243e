"""The sets: which are there, and what has to be known to use them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.eval import Dataset, load


@dataclass(frozen=True)
class Known:
    """What a folder doesn't say by itself."""

    language: str = "english"
    same: str | None = None
    """Questions search only documents with the same value in this field."""
    apart: tuple[str, Any] | None = None
    """Questions with this metadata are another kind: reported by themselves, outside the mean."""
    published: dict[str, float] | None = None
    """nDCG@10 from the literature, for the systems that it names."""


KNOWN = {
    "faquad-pt": Known("portuguese"),
    "locomo-dev": Known(same="sample", apart=("category", 5)),
    "norquad-validation": Known("norwegian"),
    "pira-pt": Known("portuguese"),
    "qmsum-val": Known(same="sample"),
    # Of the 300 test claims; these are the training claims over the same abstracts.
    "scifact-train": Known(published={"dense": 0.645, "qdrant-bm25": 0.687}),
    "xquad-de": Known("german"),
    "xquad-es": Known("spanish"),
}


def known(name: str) -> Known:
    return KNOWN.get(name, Known())


def find(folder: Path, names: list[str] | None) -> list[Path]:
    """The sets in a folder, all or by name."""
    there = sorted(path.parent for path in folder.glob("*/corpus.jsonl"))
    missing = set(names or ()) - {path.name for path in there}
    if missing:
        raise SystemExit(f"{folder} has no {', '.join(sorted(missing))}: it has {', '.join(p.name for p in there)}")
    return [path for path in there if names is None or path.name in names]


def read(path: Path) -> Dataset:
    return load(path, same=known(path.name).same)
