"""Records with fields: JSON lines and CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from twofold.cli.sources import Placed, Reading, Source
from twofold.documents import Document
from twofold.errors import InvalidDocument

_LONGEST_CELL = 2**31 - 1


def read_jsonl(source: Source, reading: Reading) -> Iterator[Placed]:
    """One object a line."""
    for number, line in source.lines():
        if line.strip():
            place = f"{source.name}:{number}"
            yield _from_row(_object(line, place), reading, place), place


def _object(line: str, place: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidDocument(f"{place}: not JSON ({error}): each line must be one object") from error
    except RecursionError as error:
        raise InvalidDocument(f"{place}: the JSON is nested too deeply: make it flatter") from error
    if not isinstance(row, dict):
        raise InvalidDocument(f'{place}: each line must be an object such as {{"text": "…"}}')
    return row


def read_csv(source: Source, reading: Reading) -> Iterator[Placed]:
    """One row a document, below a row of column names. A column of numbers becomes numbers."""
    convert = _column_types(source, reading)
    for number, row in _rows(source, reading):
        place = f"{source.name}:{number}"
        typed = {name: convert.get(name, str)(cell) for name, cell in row.items() if cell or name == reading.text_field}
        yield _from_row(typed, reading, place), place


def _rows(source: Source, reading: Reading) -> Iterator[tuple[int, dict[str, str]]]:
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.DictReader((line for _, line in source.lines()), strict=True)
    try:
        _check_header(source, reader.fieldnames, reading)
        for row in reader:
            if None in row:
                raise InvalidDocument(
                    f"{source.name}:{reader.line_num}: more cells than columns: put a text with commas in quotes"
                )
            yield reader.line_num, {name: cell or "" for name, cell in row.items()}
    except csv.Error as error:
        begun = reader.line_num + 1  # the last whole row ended before it
        raise InvalidDocument(f"{source.name}:{begun}: not CSV ({error}): mend the quotes") from error


def _check_header(source: Source, columns: Any, reading: Reading) -> None:
    columns = list(columns or ())
    if columns and reading.text_field not in columns:
        raise InvalidDocument(
            f"{source.name}:1: no column {reading.text_field!r} among {', '.join(columns)}: name the one with the text "
            "with --text-field"
        )


def _column_types(source: Source, reading: Reading) -> dict[str, Callable[[str], Any]]:
    """Numbers, where every cell of a column is one: filters compare them. 007 and 1.10 stay as they are written."""
    types: dict[str, Callable[[str], Any]] = {}
    for _, row in _rows(source, reading):
        for name, cell in row.items():
            if cell and types.get(name) is not str:
                types[name] = _wider(types.get(name), _type_of(cell))
    return {**types, reading.text_field: str, reading.id_field: str}


def _type_of(cell: str) -> type:
    for kind in (int, float):
        try:
            if str(kind(cell)) == cell and cell not in ("inf", "-inf", "nan"):
                return kind
        except ValueError:
            continue
    return str


def _wider(one: Any, other: type) -> type:
    if one is None or one is other:
        return other
    return float if {one, other} == {int, float} else str


def _from_row(row: Mapping[str, Any], reading: Reading, place: str) -> Document:
    if reading.text_field not in row:
        raise InvalidDocument(
            f"{place}: no field {reading.text_field!r} among {', '.join(row) or 'none'}: name the one with the text "
            "with --text-field"
        )
    rest = {name: value for name, value in row.items() if name not in (reading.text_field, reading.id_field)}
    nested = rest.pop("metadata", None)
    if isinstance(nested, Mapping):
        rest = {**nested, **rest}
    elif nested is not None:
        rest["metadata"] = nested
    identity = row.get(reading.id_field)
    return Document(row[reading.text_field], None if identity is None else str(identity), rest)
