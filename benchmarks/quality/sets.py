"""The sets: where they are, which are there, and what has to be known to use them.

They are not part of the project: --data or TWOFOLD_EVAL_DATA names the folder that holds them.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.eval import Dataset, load

DATA_VARIABLE = "TWOFOLD_EVAL_DATA"
DEFAULT_DATA = "../shared/data"
_EXPECTED = "a folder for each set, BEIR-style, with corpus.jsonl, queries.jsonl and qrels.tsv"


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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the sets are, and where their vectors are kept."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA)),
        help=f"the folder with the sets, which are not part of the project: {_EXPECTED}; "
        f"default: ${DATA_VARIABLE}, or {DEFAULT_DATA} outside the project",
    )
    parser.add_argument("--cache", type=Path, default=Path(".cache/quality"), help="where vectors are kept")


def find(folder: Path, names: list[str] | None) -> list[Path]:
    """The sets in a folder, all or by name."""
    there = sorted(path.parent for path in folder.glob("*/corpus.jsonl"))
    if not there:
        absent = f"there is no set in {folder}" if folder.is_dir() else f"there is no folder {folder}"
        raise SystemExit(
            f"{absent}: the sets are not part of the project. Expected is {_EXPECTED}. "
            f"Name your own with --data or {DATA_VARIABLE}"
        )
    missing = set(names or ()) - {path.name for path in there}
    if missing:
        raise SystemExit(f"{folder} has no {', '.join(sorted(missing))}: it has {', '.join(p.name for p in there)}")
    return [path for path in there if names is None or path.name in names]


def read(path: Path) -> Dataset:
    return load(path, same=known(path.name).same)
