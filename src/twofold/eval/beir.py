"""BEIR-style folders: corpus.jsonl, queries.jsonl, and judgements in qrels.tsv or qrels/*.tsv."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from twofold.documents import Document
from twofold.eval.data import Dataset, Question
from twofold.eval.errors import EvaluationError
from twofold.eval.lines import grade, read_lines, read_objects

_HEADERS = {"query-id", "query_id", "qid"}


def read(folder: Path, split: str | None = None) -> Dataset:
    """The judged questions of a folder and all its documents. Questions that nobody judged are left out."""
    judged = _judgements(_qrels(folder, split))
    questions = [_question(row, place, judged) for place, row in read_objects(folder / "queries.jsonl")]
    documents = [_document(row, place) for place, row in read_objects(folder / "corpus.jsonl")]
    return Dataset(folder.resolve().name, tuple(q for q in questions if q.id in judged), tuple(documents))


def _qrels(folder: Path, split: str | None) -> Path:
    single, several = folder / "qrels.tsv", sorted((folder / "qrels").glob("*.tsv"))
    if split is None and single.is_file():
        return single
    names = [path.stem for path in several]
    wanted = split or ("test" if "test" in names else names[0] if len(names) == 1 else None)
    if wanted in names:
        return several[names.index(wanted)]
    there = f"there is {', '.join(names)}: name one as the split" if names else "it has no qrels.tsv or qrels/*.tsv"
    raise EvaluationError(f"{folder} has no judgements{f' {split}' if split else ''}: {there}")


def _judgements(path: Path) -> dict[str, dict[str, float]]:
    """For each question its right answers; one that was judged to have none stays, empty."""
    judged: dict[str, dict[str, float]] = defaultdict(dict)
    for place, line in read_lines(path):
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) == 4:  # TREC's form: the second column has no meaning
            del cells[1]
        if len(cells) != 3:
            raise EvaluationError(f"{place}: expected query-id, corpus-id and score, separated by tabs")
        if cells[0] not in _HEADERS:
            relevance = grade(cells[2], place)
            answers = judged[cells[0]]
            if relevance > 0:
                answers[cells[1]] = relevance
    return judged


def _question(row: dict[str, Any], place: str, judged: dict[str, dict[str, float]]) -> Question:
    identity = _field(row, "_id", place)
    return Question(identity, _field(row, "text", place), judged.get(identity, {}), None, row.get("metadata") or {})


def _document(row: dict[str, Any], place: str) -> Document:
    text = "\n".join(part for part in (row.get("title"), _field(row, "text", place)) if part)
    return Document(text, _field(row, "_id", place), row.get("metadata") or {})


def _field(row: dict[str, Any], name: str, place: str) -> str:
    if name not in row:
        raise EvaluationError(f"{place}: no field {name!r}: each line needs _id and text")
    return str(row[name])
