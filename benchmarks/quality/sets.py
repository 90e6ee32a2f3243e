"""The sets: where they are, which are there, and what has to be known to use them.

They are not part of the project: --data or TWOFOLD_EVAL_DATA names the folder that holds them.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twofold import Document
from twofold.eval import Dataset, load

DATA_VARIABLE = "TWOFOLD_EVAL_DATA"
DEFAULT_DATA = "../shared/data"
_EXPECTED = "a folder for each set, BEIR-style, with corpus.jsonl, queries.jsonl and qrels.tsv"


ENGLISH = "english"


@dataclass(frozen=True)
class Known:
    """What a folder doesn't say by itself."""

    family: str = "of your own"
    """What kind of questions and texts: a mean of many alike would hide the others."""
    language: str = ENGLISH
    same: str | None = None
    """Questions search only documents with the same value in this field."""
    apart: tuple[str, Any] | None = None
    """Questions with this metadata are another kind: reported by themselves, outside the mean."""
    parts: bool = False
    """Its documents are parts of something, and their ids say of what, and where: "monday:12"."""
    published: dict[str, float] | None = None
    """nDCG@10 from the literature, for the systems that it names."""


_ELSEWHERE = "other languages"
_FAMILIES = {
    "support": ("counselchat", "banking77", "covid-faq-en"),
    "memory": ("ikat-ptkb", "locomo-dev", "beam100k"),
    "dialogue": ("mtrag-turns", "mtrag-rewrite", "qmsum-val"),
    "commands and code": ("tldr", "nl2bash", "cosqa-dev", "eslint-messages", "gorilla-hf", "gorilla-th"),
    "arguments, science, health": (
        *("perspectrum", "argkp", "pubmedqa", "scifact-train", "cranfield", "cisi", "medquad", "medquad-short"),
    ),
    "law": ("legal-contractnli", "legal-contractnli-titled"),
    "titles, products": ("recipes", "abt-buy"),
    "passages": ("xquad-en", "pira-en", "chunking-eval"),
}
_LANGUAGES = {
    "covid-faq-de": "german",
    "tldr-es": "spanish",
    "tldr-nl": "dutch",
    "howtocook-zh": "chinese",
    "xquad-de": "german",
    "xquad-es": "spanish",
    "pira-pt": "portuguese",
    "faquad-pt": "portuguese",
    "norquad-validation": "norwegian",
}
_MORE: dict[str, dict[str, Any]] = {
    "ikat-ptkb": {"same": "sample"},
    "locomo-dev": {"same": "sample", "apart": ("category", 5), "parts": True},
    "beam100k": {"same": "sample", "parts": True},
    "qmsum-val": {"same": "sample", "parts": True},
    "chunking-eval": {"parts": True},
    "legal-contractnli": {"parts": True},
    "legal-contractnli-titled": {"parts": True},
    # Of the 300 test claims; these are the training claims over the same abstracts.
    "scifact-train": {"published": {"dense": 0.645, "qdrant-bm25": 0.687}},
}
KNOWN = {
    **{name: Known(family, **_MORE.get(name, {})) for family, names in _FAMILIES.items() for name in names},
    **{name: Known(_ELSEWHERE, language) for name, language in _LANGUAGES.items()},
}


def known(name: str) -> Known:
    return KNOWN.get(name, Known())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the sets are, which model embeds them, and where their vectors are kept."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA)),
        help=f"the folder with the sets, which are not part of the project: {_EXPECTED}; "
        f"default: ${DATA_VARIABLE}, or {DEFAULT_DATA} outside the project",
    )
    parser.add_argument("--cache", type=Path, default=Path(".cache/quality"), help="where vectors are kept")
    parser.add_argument(
        "--model",
        metavar="NAME[=FOLDER]",
        help="another dense model: fast, best, multilingual, or one of fastembed's list, from its cache or a folder",
    )


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


def as_parts(data: Dataset) -> list[Document]:
    """The documents of a set, each with its place, where the set has neighbours."""
    return [_part(each) for each in data.documents] if known(data.name).parts else list(data.documents)


def _part(document: Document) -> Document:
    part_of, _, place = str(document.id).rpartition(":")
    return replace(document, part_of=part_of, position=int(place.lstrip("p")))
