"""What goes into an index: `Document`, and how anything else becomes one."""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timezone
from typing import Any, NamedTuple, TypeAlias

from twofold.errors import InvalidDocument
from twofold.text import find_surrogate, passages

_NAMESPACE = uuid.UUID("6d8f9d0e-52d5-5c56-8d5b-7f3f2a1c4b90")
_HASHED = hashlib.sha1(_NAMESPACE.bytes, usedforsecurity=False)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MAX_INT = 2**63
"""Whole numbers from -MAX_INT to below MAX_INT can be stored, and compared."""
MAX_TEXT_CHARS = 1_000_000
"""How long the text of a document may be, its title included."""
MAX_DEPTH = 32
"""How many levels metadata and filters may be nested."""
_MAX_POSITION = 2**53
_FIELDS = {"text", "id", "metadata", "title", "part_of", "position"}
_SHELVES = {"memory", "superseded", "log", "feedback", "learned"}


@dataclass(frozen=True)
class Document:
    """A text with an id of any form and metadata that can be filtered on.

    Without an id, one is derived from all the rest, so that adding the same document
    again replaces it instead of storing it twice. A document with no text is stored and
    can be fetched and filtered, but no search finds it.

    A part of something (a passage of a page, a line of a meeting) can name it and its place
    there: then it is found with some context of its neighbours. Both are kept in the metadata
    as well, where filters and other frameworks find them, and are read from there.
    """

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None
    """What stands above the text. It counts for meaning and for words as the text does."""
    part_of: str | None = field(default=None, repr=False)
    """What it is a part of, by any name that is the same for all its parts."""
    position: int | None = field(default=None, repr=False)
    """Its place there: parts with numbers that follow each other are neighbours."""

    def __post_init__(self) -> None:
        if not isinstance(self.metadata, Mapping):  # which is said when it is to be stored
            return
        if self.part_of is not None or self.position is not None:
            place = {"part_of": self.part_of, "position": self.position}
            object.__setattr__(self, "metadata", {**self.metadata, **place})
        elif found := place_in(self.metadata):
            object.__setattr__(self, "part_of", found[0])
            object.__setattr__(self, "position", found[1])

    def split(self, characters: int = 2000) -> list[Document]:
        """The document in passages of at most so many characters, each a part of it, cut where something ends.

        They are cut at empty lines, or else at the end of a line, of a sentence, of a word. All have the title and the
        metadata; their ids are that of the document (or one made from its content) with #1, #2 … behind it. Models
        read no more than the beginning of a text, so passages are found by more of what they mean than one long text.
        """
        if isinstance(characters, bool) or not isinstance(characters, int) or characters < 1:
            raise InvalidDocument(f"characters must be a whole number from 1, got {characters!r}")
        whole = _read(self, 0)
        own = {key: value for key, value in whole.metadata.items() if key not in PLACE}
        return [
            Document(passage, f"{whole.id}#{number}", own, whole.title, whole.id, number)
            for number, passage in enumerate(passages(whole.text, characters), 1)
        ]

    @property
    def searched_text(self) -> str:
        """What a search compares with: the title, if there is one, and the text."""
        return titled(self.title, self.text)


def titled(title: str | None, text: str) -> str:
    """A text below its title."""
    return f"{title}\n{text}" if title else text


PLACE = ("part_of", "position")
"""The metadata fields of parts."""


def place_in(metadata: Mapping[str, Any]) -> tuple[str, int] | None:
    """Of what a document with this metadata is a part, and where in it; None if it is none."""
    part_of, position = metadata.get("part_of"), metadata.get("position")
    if isinstance(part_of, str) and part_of and type(position) is int and 0 <= position <= _MAX_POSITION:
        return part_of, position
    return None


DocumentLike: TypeAlias = Document | str | Mapping[str, Any]


class Record(NamedTuple):
    """A document that has been checked and can be stored: final id, JSON metadata."""

    id: str
    text: str
    metadata: dict[str, Any]
    title: str | None = None


def point_id(document_id: str) -> str:
    """The UUID a document is stored under: itself if the id is one, otherwise derived from it."""
    return document_id if _UUID.fullmatch(document_id) else _uuid5(document_id)


def _uuid5(name: str) -> str:
    """`str(uuid.uuid5(_NAMESPACE, name))` in less than half its time: every stored document needs one."""
    hashed = _HASHED.copy()
    hashed.update(name.encode("utf-8", "surrogatepass"))  # half a character is stored nowhere, but may be asked for
    digest = bytearray(hashed.digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50  # version 5
    digest[8] = digest[8] & 0x3F | 0x80  # variant of RFC 9562
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def pair_up(
    documents: Iterable[DocumentLike], ids: Sequence[str] | None, metadatas: Sequence[Mapping[str, Any]] | None
) -> Iterable[DocumentLike]:
    """Join documents with ids and metadata given beside them; lengths must agree."""
    if isinstance(documents, (str, bytes, Document, Mapping, type)):
        raise InvalidDocument("add takes a list (or any iterable) of documents: wrap a single one in [ ]")
    if not isinstance(documents, Iterable):
        raise InvalidDocument(f"add takes a list (or any iterable) of documents, got {type(documents).__name__}")
    columns: dict[str, Sequence[Any] | None] = {"id": ids, "metadata": metadatas}
    for name, column in columns.items():
        check_column(column, f"{name}s")
    given = {name: column for name, column in columns.items() if column is not None}
    if not given:
        return documents
    items = list(documents)
    for name, column in given.items():
        if len(column) != len(items):
            raise InvalidDocument(f"{len(items)} documents but {len(column)} {name}s: give one for each document")
    joined: list[DocumentLike] = []
    for position, item in enumerate(items):
        document = _as_document(item, position)
        for name in given:
            if set(document.metadata) - set(PLACE) if name == "metadata" else document.id:
                raise InvalidDocument(f"has its own {name} and one given beside it: keep one", position=position)
        joined.append(replace(document, **{name: column[position] for name, column in given.items()}))
    return joined


def check_column(column: Any, name: str) -> None:
    """What is given beside documents has a place for each of them."""
    fits = hasattr(column, "__len__") and hasattr(column, "__getitem__") and getattr(column, "shape", None) != ()
    if column is not None and (not fits or isinstance(column, (str, bytes, Mapping, type))):
        raise InvalidDocument(f"{name} must be a list with one for each document, got {type(column).__name__}")


def check(documents: Iterable[DocumentLike], start: int = 0) -> Iterator[Record]:
    """Turn documents into records, one by one; the first that cannot be stored raises."""
    for position, item in enumerate(documents, start):
        yield _record(_as_document(item, position), position)


def _as_document(item: DocumentLike, position: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(text=item)
    if isinstance(item, Mapping):
        if "text" not in item or set(item) - _FIELDS:
            raise InvalidDocument(
                "a mapping needs 'text' and may have 'id', 'metadata', 'title', 'part_of' and 'position', got "
                f"{sorted(map(str, item))}: "
                "put other fields under 'metadata'",
                position=position,
            )
        return Document(**item)
    raise InvalidDocument(f"expected a Document, a string or a mapping, got {type(item).__name__}", position=position)


def _record(document: Document, position: int) -> Record:
    record = _read(document, position)
    if (length := len(titled(record.title, record.text))) > MAX_TEXT_CHARS:
        raise InvalidDocument(
            f"its text has {length:,} characters, and {MAX_TEXT_CHARS:,} is the most: Document(…).split() cuts it into "
            "passages, each a document of its own, and `twofold add` cuts a file into its paragraphs",
            position=position,
        )
    return record


def _read(document: Document, position: int) -> Record:
    text = _check_string(document.text, "text", position)
    if not isinstance(document.metadata, Mapping):
        raise InvalidDocument(f"metadata must be a mapping, got {type(document.metadata).__name__}", position=position)
    metadata = _jsonable(document.metadata, "metadata", position, 0)
    if (document.part_of is not None or document.position is not None) and place_in(metadata) is None:
        raise InvalidDocument(
            "a part has both part_of, a name, and position, a whole number from 0, got "
            f"{document.part_of!r} and {document.position!r}: leave both out or give both",
            position=position,
        )
    title = None if document.title is None else _check_string(document.title, "title", position).strip() or None
    if document.id is None:
        content = json.dumps([text, metadata, *([title] if title else [])], sort_keys=True, ensure_ascii=True)
        return Record(_uuid5(hashlib.sha256(content.encode()).hexdigest()), text, metadata, title)
    identity = _check_string(document.id, "id", position)
    if not identity:
        raise InvalidDocument("id is empty: leave it out or give any other string", position=position)
    return Record(identity, text, metadata, title)


def _check_string(value: object, name: str, position: int) -> str:
    if not isinstance(value, str):
        raise InvalidDocument(
            f"{name} must be a string, got {type(value).__name__}: convert it first", position=position
        )
    if type(value) is not str:
        value = str.__str__(value)  # an enumeration's member, numpy's text: engines want the plain one
    at = None if value.isascii() else find_surrogate(value)
    if at is not None:
        raise InvalidDocument(
            f"{name} has half a character (a lone surrogate) at position {at}, which cannot be stored: "
            "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace') mends it",
            position=position,
        )
    return value


def _jsonable(value: Any, path: str, position: int, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidDocument(f"{path} is nested deeper than {MAX_DEPTH} levels", position=position)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_string(value, path, position)
    if isinstance(value, (int, float)):
        return _check_number(value, path, position)
    if isinstance(value, date):
        return iso(value)
    if isinstance(value, Mapping):
        return {
            _key(key, path, position): item if _is_fine(item) else _jsonable(item, f"{path}.{key}", position, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_jsonable(item, f"{path}[{i}]", position, depth + 1) for i, item in enumerate(value)]
    if (plain := without_numpy(value)) is not value:
        return _jsonable(plain, path, position, depth + 1)
    raise InvalidDocument(
        f"{path} is a {type(value).__name__}, which JSON cannot hold: convert it to a string, number or list",
        position=position,
    )


def _is_fine(value: Any) -> bool:
    """What most values are: something that needs no closer look."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    return kind is bool or (kind is int and -MAX_INT <= value < MAX_INT)


def _check_number(value: float, path: str, position: int) -> float:
    # An enumeration's members and numpy's float64 have classes of their own: engines want the plain number.
    if isinstance(value, int):
        if not -MAX_INT <= value < MAX_INT:
            raise InvalidDocument(f"{path} does not fit 64 bits: store it as a string", position=position)
        return int.__int__(value)
    if not math.isfinite(value):
        raise InvalidDocument(f"{path} is {value}: leave it out or give a finite number", position=position)
    return float.__float__(value)


def _key(key: Any, path: str, position: int) -> str:
    return key if type(key) is str and key.isascii() else _check_string(key, f"a key of {path}", position)


def without_numpy(value: Any) -> Any:
    """A value as Python has it: numpy's are stored as such, too."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def as_moment(value: date) -> datetime:
    """A date as its first moment, UTC unless it says otherwise."""
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def iso(value: date) -> str:
    """RFC 3339 text of a date or datetime; a datetime without a zone is taken as UTC."""
    return (as_moment(value) if isinstance(value, datetime) else value).isoformat()


def is_memory(metadata: Mapping[str, Any]) -> bool:
    """A row that `Memory` wrote, and no document: its shelf and a field of its own name the same user or project."""
    shelf, _, owner = str(metadata.get("shelf")).partition(":")
    field = "project" if shelf.startswith("project-") else "user"
    return shelf.removeprefix("project-") in _SHELVES and owner != "" and metadata.get(field) == owner
