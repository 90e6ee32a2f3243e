"""Pairs in a file: a query and the ids that it should find.

.jsonl: {"query": "…", "expected": "id" or ["id", …], "relevance": 2 or [2, 1], "filter": {…}, anything else}
.csv:   columns query, expected and, if you like, relevance; one row for each expected id

`expected` may be empty: then the right answer is nothing. Rows with the same query (and filter) are one question. Other
fields become metadata.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from twofold.eval.data import Dataset, Question
from twofold.eval.errors import EvaluationError
from twofold.eval.lines import grade, read_objects

_OWN = {"id", "query", "expected", "relevance", "filter"}


def read(path: Path) -> Dataset:
    """The questions of a .jsonl or .csv file."""
    readers = {".jsonl": read_objects, ".csv": _rows}
    if path.suffix.lower() not in readers:
        raise EvaluationError(f"{path} is neither .jsonl nor .csv: write one pair a line, with query and expected")
    found: dict[str, Question] = {}
    for place, row in readers[path.suffix.lower()](path):
        question = _question(row, place, len(found))
        key = json.dumps([question.text, question.filter], sort_keys=True)
        known = found.get(key)
        found[key] = replace(known, relevant={**known.relevant, **question.relevant}) if known else question
    return Dataset(path.stem, tuple(found.values()))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            for row in reader:
                yield f"{path}:{reader.line_num}", {name: cell for name, cell in row.items() if cell and name}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(f"{path} can't be read as CSV: {error}") from error


def _question(row: dict[str, Any], place: str, number: int) -> Question:
    if not isinstance(row.get("query"), str):
        raise EvaluationError(f"{place}: no 'query': each row needs query and expected")
    where = row.get("filter")
    if where is not None and not isinstance(where, dict):
        raise EvaluationError(f"{place}: filter must be an object such as {{'year': 2014}}, got {where!r}")
    metadata = {name: value for name, value in row.items() if name not in _OWN}
    return Question(str(row.get("id", f"q{number + 1}")), row["query"], _relevant(row, place), where, metadata)


def _relevant(row: dict[str, Any], place: str) -> dict[str, float]:
    expected, relevance = row.get("expected"), row.get("relevance", 1)
    ids = [] if expected in (None, "") else expected if isinstance(expected, list) else [expected]
    grades = relevance if isinstance(relevance, list) else [relevance] * len(ids)
    if len(grades) != len(ids):
        raise EvaluationError(f"{place}: {len(ids)} expected ids but {len(grades)} relevances: give one for each")
    graded = {str(identity): grade(value, place) for identity, value in zip(ids, grades, strict=True)}
    return {identity: value for identity, value in graded.items() if value > 0}
