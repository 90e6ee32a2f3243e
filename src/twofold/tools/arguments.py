"""What each tool can be asked for.

Parameters are flat, and every optional one can be null: that is what strict tool schemas allow.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

MOST_RESULTS = 50
_KEPT = {"log": "the daily log", "turn": "turns of conversations"}


def _as_list(value: Any) -> Any:
    """Models write one word where a list is wanted, or a list as JSON text: both are clear enough."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return [value]
    return [value] if value.strip() else None


def _own_type(value: str | None) -> str | None:
    if value in _KEPT:
        raise ValueError(f"is kept for {_KEPT[value]}: use another word, such as note")
    return value


Words = Annotated[list[str] | None, BeforeValidator(_as_list)]
Type = Annotated[str | None, AfterValidator(_own_type)]
Importance = Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)]
MaxResults = Annotated[int | None, Field(ge=1, le=MOST_RESULTS)]


class Arguments(BaseModel):
    """The arguments of a tool. What isn't known is an error: a misspelt argument must not be ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchArguments(Arguments):
    """What `memory_search` takes."""

    query: str = Field(
        description="What to look for: a question or a few words. Exact names, codes and identifiers count too."
    )
    max_results: MaxResults = Field(None, description=f"How many memories at most, from 1 to {MOST_RESULTS}.")
    types: Words = Field(None, description='Only memories of these types, such as ["decision", "note"].')
    tags: Words = Field(
        None,
        description="Only memories with at least one of these tags. Leave it null unless tags are known: tags that the "
        "query names count anyway.",
    )


class SaveArguments(Arguments):
    """What `memory_save` takes."""

    text: str = Field(
        description="The memory, as one or a few full sentences that make sense without the conversation: names "
        "instead of pronouns, dates instead of 'yesterday'."
    )
    type: Type = Field(
        None, description="What kind of memory it is, in one word: note, preference, decision, fact, task …."
    )
    tags: Words = Field(None, description='A few words to find it by, such as ["rathole", "infra"].')
    importance: Importance = Field(None, description="From 0 to 1; 0.5 is ordinary.")
    source: str | None = Field(None, description="Where it comes from, if not from the user: a URL, a file, a tool.")
    replaces: Words = Field(
        None, description="Ids of memories that this one makes out of date: they are no longer found."
    )


class UpdateArguments(Arguments):
    """What `memory_update` takes."""

    id: str = Field(description="The id of the memory, as a search or a list gave it.")
    text: str | None = Field(None, description="The new text, whole; null keeps the old one.")
    type: Type = Field(None, description="The new type; null keeps the old one.")
    tags: Words = Field(None, description="All of the new tags; null keeps the old ones.")
    importance: Importance = Field(None, description="From 0 to 1; null keeps it as it is.")


class ForgetArguments(Arguments):
    """What `memory_forget` takes."""

    ids: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        description="The ids of the memories to delete, as a search or a list gave them.", min_length=1, max_length=100
    )


class ListArguments(Arguments):
    """What `memory_list` takes."""

    max_results: MaxResults = Field(None, description=f"How many memories at most, from 1 to {MOST_RESULTS}.")
    types: Words = Field(None, description='Only memories of these types, such as ["decision", "note"].')
    tags: Words = Field(None, description="Only memories with at least one of these tags.")
    since: str | None = Field(None, description="Only memories from this day or moment on, such as 2026-02-21.")
    until: str | None = Field(None, description="Only memories up to this moment, such as 2026-02-28T23:59:59.")
    after: str | None = Field(None, description="For the next page: the value that the page before ended with.")


class FeedbackArguments(Arguments):
    """What `memory_feedback` takes."""

    query: str = Field(description="The query of the search, word for word.")
    id: str = Field(description="The id of the memory that the search found.")
    useful: bool = Field(description="true if the memory helped, false if it was beside the point.")
