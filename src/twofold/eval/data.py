"""The questions of an evaluation with their right answers, and the documents where they come along.

`load` reads a BEIR-style folder (corpus.jsonl, queries.jsonl, and judgements in qrels.tsv or qrels/*.tsv), or a file of
pairs, each a query and the ids that it should find:

    .jsonl: {"query": "…", "expected": "id" or ["id", …], "relevance": 2 or [2, 1], "filter": {…}, anything else}
    .csv:   columns query, expected and, if you like, relevance; one row for each expected id

`expected` may be empty: then the right answer is nothing. Rows with the same query (and filter) are one question. Other
fields become metadata.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twofold.documents import Document
from twofold.errors import EvaluationError

_PAIR_FIELDS = {"id", "query", "expected", "relevance", "filter"}
_QRELS_HEADERS = {"query-id", "query_id", "qid"}


@dataclass(frozen=True)
class Question:
    """A query and what it should find."""

    id: str
    text: str
    relevant: Mapping[str, float]
    """The ids of the right answers, each with its grade (1 or more). Empty: the right answer is nothing."""
    filter: Mapping[str, Any] | None = None
    """What to limit this search to."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def expects_nothing(self) -> bool:
        """Whether nothing is the right answer."""
        return not self.relevant


@dataclass(frozen=True)
class Dataset:
    """Questions to ask, and the documents to ask them of, unless those are in an index already."""

    name: str
    questions: tuple[Question, ...]
    documents: tuple[Document, ...] = ()

    def __post_init__(self) -> None:
        if not self.questions:
            raise EvaluationError(f"{self.name} has no questions with judgements: check the file or the split")

    def sample(self, count: int) -> Dataset:
        """At most `count` questions, spread evenly, always the same ones."""
        if count < 1:
            raise EvaluationError(f"a sample needs at least 1 question, got {count}")
        total = len(self.questions)
        kept = tuple(self.questions[i * total // count] for i in range(min(count, total)))
        return self if count >= total else replace(self, questions=kept)

    def where(self, name: str, *values: Any) -> Dataset:
        """The questions whose metadata has one of these values."""
        kept = tuple(question for question in self.questions if question.metadata.get(name) in values)
        return replace(self, questions=kept)


def load(path: str | Path, *, same: str | None = None, split: str | None = None) -> Dataset:
    """Read a BEIR-style folder, or a file of queries with their expected ids.

    Args:
        path: A folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/*.tsv), or a .jsonl or .csv file.
        same: A metadata field of questions and documents: a question searches only documents with its own value, as
            a question about one conversation among many does.
        split: Which of qrels/*.tsv; by default "test" if it is there.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        data = _read_beir(place, split)
    elif place.is_file():
        data = _read_pairs(place)
    else:
        raise EvaluationError(f"{path} does not exist: give a folder with corpus.jsonl, or a .jsonl or .csv file")
    if same is None:
        return data
    for question in data.questions:
        if same not in question.metadata:
            raise EvaluationError(f"question {question.id} has no metadata field {same!r} to limit its search by")
    limited = (replace(q, filter={**(q.filter or {}), same: q.metadata[same]}) for q in data.questions)
    return replace(data, questions=tuple(limited))


# BEIR-style folders


def _read_beir(folder: Path, split: str | None) -> Dataset:
    """The judged questions of a folder and all its documents. Questions that nobody judged are left out."""
    judged = _judgements(_qrels_file(folder, split))
    questions = [
        Question(row["_id"], row["text"], judged[row["_id"]], None, row["metadata"])
        for row in _beir_rows(folder / "queries.jsonl")
        if row["_id"] in judged
    ]
    documents = [
        Document("\n".join(filter(None, (row.get("title"), row["text"]))), row["_id"], row["metadata"])
        for row in _beir_rows(folder / "corpus.jsonl")
    ]
    return Dataset(folder.resolve().name, tuple(questions), tuple(documents))


def _beir_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of queries.jsonl or corpus.jsonl: _id and text as strings, metadata as a mapping."""
    for place, row in _read_objects(path):
        for name in ("_id", "text"):
            if name not in row:
                raise EvaluationError(f"{place}: no field {name!r}: each line needs _id and text")
        yield {**row, "_id": str(row["_id"]), "text": str(row["text"]), "metadata": row.get("metadata") or {}}


def _qrels_file(folder: Path, split: str | None) -> Path:
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
    for place, line in _read_lines(path):
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) == 4:  # TREC's form: the second column has no meaning
            del cells[1]
        if len(cells) != 3:
            raise EvaluationError(f"{place}: expected query-id, corpus-id and score, separated by tabs")
        if cells[0] not in _QRELS_HEADERS:
            judged[cells[0]].update(_right_answers([cells[1]], [cells[2]], place))
    return judged


# Files of pairs


def _read_pairs(path: Path) -> Dataset:
    readers = {".jsonl": _read_objects, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise EvaluationError(f"{path} is neither .jsonl nor .csv: write one pair a line, with query and expected")
    questions: dict[str, Question] = {}
    for place, row in readers[path.suffix.lower()](path):
        question = _pair_question(row, place, len(questions))
        key = json.dumps([question.text, question.filter], sort_keys=True)
        known = questions.get(key)
        questions[key] = replace(known, relevant={**known.relevant, **question.relevant}) if known else question
    return Dataset(path.stem, tuple(questions.values()))


def _pair_question(row: dict[str, Any], place: str, number: int) -> Question:
    if not isinstance(row.get("query"), str):
        raise EvaluationError(f"{place}: no 'query': each row needs query and expected")
    where = row.get("filter")
    if where is not None and not isinstance(where, dict):
        raise EvaluationError(f"{place}: filter must be an object such as {{'year': 2014}}, got {where!r}")
    expected, relevance = row.get("expected"), row.get("relevance", 1)
    ids = [] if expected in (None, "") else expected if isinstance(expected, list) else [expected]
    grades = relevance if isinstance(relevance, list) else [relevance] * len(ids)
    if len(grades) != len(ids):
        raise EvaluationError(f"{place}: {len(ids)} expected ids but {len(grades)} relevances: give one for each")
    metadata = {name: value for name, value in row.items() if name not in _PAIR_FIELDS}
    right = _right_answers(ids, grades, place)
    return Question(str(row.get("id", f"q{number + 1}")), row["query"], right, where, metadata)


# Lines, objects and grades; every error names the line


def _read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file that hold something, each with its place."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"{path}:{number}", line.rstrip("\r\n")
    except OSError as error:
        raise EvaluationError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path} is not UTF-8: convert it first") from error


def _read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a .jsonl file, each with its place."""
    for place, line in _read_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise EvaluationError(f"{place}: not JSON ({error}): each line must be one object") from error
        if not isinstance(row, dict):
            raise EvaluationError(f"{place}: each line must be an object")
        yield place, row


def _read_csv(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a .csv file without their empty cells, each with its place."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            for row in reader:
                yield f"{path}:{reader.line_num}", {name: cell for name, cell in row.items() if cell and name}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(f"{path} can't be read as CSV: {error}") from error


def _right_answers(ids: Sequence[Any], grades: Sequence[Any], place: str) -> dict[str, float]:
    """The ids whose grade isn't 0, which says that a document is not relevant; 1 or more says how relevant it is."""
    answers = {}
    for identity, value in zip(ids, grades, strict=True):
        try:
            grade = float(value)
        except (TypeError, ValueError) as error:
            raise EvaluationError(f"{place}: relevance must be a number, got {value!r}") from error
        if not math.isfinite(grade) or 0 < grade < 1:
            raise EvaluationError(
                f"{place}: relevance must be 0 (not relevant), or 1 or more, got {value!r}: scale it up"
            )
        answers[str(identity)] = grade
    return {identity: grade for identity, grade in answers.items() if grade > 0}
