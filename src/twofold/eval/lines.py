"""Reading files line by line, with errors that name the line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twofold.eval.errors import EvaluationError


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
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


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a .jsonl file, each with its place."""
    for place, line in read_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise EvaluationError(f"{place}: not JSON ({error}): each line must be one object") from error
        if not isinstance(row, dict):
            raise EvaluationError(f"{place}: each line must be an object")
        yield place, row


def grade(value: Any, place: str) -> float:
    """How relevant a document is: 0 for not at all, 1 or more for a right answer."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"{place}: relevance must be a number, got {value!r}") from error
    if not math.isfinite(number) or 0 < number < 1:
        raise EvaluationError(f"{place}: relevance must be 0 (not relevant), or 1 or more, got {value!r}: scale it up")
    return number
