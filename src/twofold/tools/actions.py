"""What each tool does: which methods of `Memory` it calls, and what it says about the outcome.

An action is a generator: it yields calls and gets their values back. So one definition serves blocking and awaited
tools alike.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import twofold  # its names are loaded when they are used: a tool can be described before the engine is there
from twofold.errors import InvalidQuery, MemoryNotFound
from twofold.tools import outputs
from twofold.tools.arguments import (
    FeedbackArguments,
    ForgetArguments,
    ListArguments,
    SaveArguments,
    SearchArguments,
    UpdateArguments,
)
from twofold.tools.results import ToolResult

if TYPE_CHECKING:
    from twofold.memory import MemoryItem, MemoryPage, MemoryResult, Remembered

_LONGEST = 2_000
"""So much of a memory's text is shown to a model; `data` has all of it."""


class Step:
    """A call of one of `Memory`'s methods, by its blocking name."""

    def __init__(self, method: str, *args: Any, **kwargs: Any) -> None:
        self.method, self.args, self.kwargs = method, args, kwargs


Steps: TypeAlias = Generator[Step, Any, ToolResult]
Action: TypeAlias = Callable[[Any, str], Steps]
"""From checked arguments, and the trust of what is stored, to the calls it takes."""


def search(asked: SearchArguments, _: str) -> Steps:
    """Find memories."""
    result: MemoryResult = yield Step(
        "recall", asked.query, asked.max_results, types=asked.types or None, tags=asked.tags
    )
    notes = [f"Also looked for {right!r} instead of {wrong!r}." for wrong, right in result.corrections.items()]
    notes += [f"The search could do less than usual: {result.degraded}."] if result.degraded else []
    notes += ["Cite a memory by its id."] if len(result) else []
    if not len(result) and (asked.types or asked.tags):
        notes.append("Try again without types and tags, or with other words.")
    values = outputs.SearchOutput(
        memories=[_found(hit.memory, hit.relevance) for hit in result], mode=result.mode, degraded=result.degraded
    )
    return _answer(values, _shown([hit.memory for hit in result]), *notes)


def save(asked: SaveArguments, trust: str) -> Steps:
    """Store a memory."""
    fields = {
        "type": asked.type,
        "tags": asked.tags,
        "importance": asked.importance,
        "source": asked.source,
        "trust": trust,
    }
    _check_reach((yield from _present(asked.replaces or ())), trust)
    stored: Remembered = yield Step("remember", asked.text, supersedes=asked.replaces or (), **fields)
    similar = yield from _present([each.id for each in stored.similar])
    values = outputs.SaveOutput(id=stored.id, is_new=stored.is_new, similar=[_found(item) for item in similar])
    said = f"Saved as {stored.id}." if stored.is_new else f"This was known already; {stored.id} has been refreshed."
    if not similar:
        return _answer(values, said)
    advice = (
        "These memories say nearly the same. If one of them is out of date, delete it with memory_forget; if all are "
        "true, leave them."
    )
    return _answer(values, said, advice, _shown(similar))


def update(asked: UpdateArguments, trust: str) -> Steps:
    """Change a memory."""
    changes = asked.model_dump(exclude={"id"}, exclude_none=True)
    if not changes:
        raise InvalidQuery("nothing to change: give at least one of text, type, tags, importance")
    old: MemoryItem | None = yield Step("get", asked.id)
    if old is None:
        raise _unknown([asked.id])
    _check_reach([old], trust)
    if asked.text is not None:  # what an agent has rewritten is no longer what the user said
        changes["trust"] = _lower(old.trust, trust)
    item: MemoryItem = yield Step("update", asked.id, **changes)
    return _answer(outputs.UpdateOutput(memory=_found(item)), "Updated:", _shown([item]))


def forget(asked: ForgetArguments, trust: str) -> Steps:
    """Delete memories."""
    wanted = list(dict.fromkeys(asked.ids))
    found = yield from _present(wanted)
    known = [item.id for item in found]
    unknown = [identity for identity in wanted if identity not in known]
    if not known:
        raise _unknown(unknown)
    _check_reach(found, trust)
    yield Step("forget", known)
    said = [f"Forgotten: {', '.join(known)}."]
    said += [f"No memory has the id {', '.join(_quoted(unknown))}."] if unknown else []
    return _answer(outputs.ForgetOutput(forgotten=known, unknown=unknown), *said)


def listing(asked: ListArguments, _: str) -> Steps:
    """Show memories, newest first."""
    page: MemoryPage = yield Step(
        "list",
        limit=asked.max_results or 10,
        after=asked.after,
        types=asked.types or None,
        tags=asked.tags,
        since=asked.since,
        until=asked.until,
    )
    more = [f"There are more: call memory_list again with the same arguments and after={page.next!r}."]
    values = outputs.ListOutput(memories=[_found(item) for item in page], next=page.next)
    return _answer(values, _shown(page.items), *(more if page.next else []))


def feedback(asked: FeedbackArguments, _: str) -> Steps:
    """Note whether a memory helped."""
    yield Step("feedback", asked.query, asked.id, asked.useful)
    judged = "useful" if asked.useful else "not useful"
    return _answer(outputs.FeedbackOutput(id=asked.id, useful=asked.useful), f"Noted: {asked.id} was {judged}.")


def _present(ids: Sequence[str]) -> Generator[Step, Any, list[MemoryItem]]:
    found = []
    for identity in ids:
        item: MemoryItem | None = yield Step("get", identity)
        found += [item] if item is not None else []
    return found


def _check_reach(items: Sequence[MemoryItem], trust: str) -> None:
    """A model speaks for its user, so it may correct what the user said; what is trusted more is not for it to hide."""
    from twofold.memory import TRUST

    reach = "user" if trust == "agent" else trust
    above = [item for item in items if TRUST.index(item.trust) > TRUST.index(reach)]
    if above:
        named = ", ".join(f"{item.id!r} (trust {item.trust!r})" for item in above)
        raise InvalidQuery(
            f"{named} can't be replaced, changed or deleted with this tool, which reaches up to trust {reach!r}. "
            "Nothing was done: call it again without that id, and tell the user if that memory is wrong."
        )


def _unknown(ids: Sequence[str]) -> MemoryNotFound:
    return MemoryNotFound(
        f"no memory has the id {', '.join(_quoted(ids))}: take ids from memory_search or memory_list, whole"
    )


def _quoted(ids: Sequence[str]) -> list[str]:
    return [repr(identity[:80]) for identity in ids]


def _lower(one: str, other: str) -> str:
    from twofold.memory import TRUST

    return min(one, other, key=TRUST.index)


def _answer(values: outputs.Output, *parts: str) -> ToolResult:
    return ToolResult("\n".join(parts), values.model_dump(mode="json"))


def _shown(items: Sequence[MemoryItem]) -> str:
    """Memories as the model reads them: marked as data, long ones cut."""
    return twofold.as_data([_cut(item) for item in items])


def _cut(item: MemoryItem) -> MemoryItem:
    beyond = len(item.text) - _LONGEST
    return item if beyond <= 0 else replace(item, text=f"{item.text[:_LONGEST]}… ({beyond:,} more characters)")


def _found(item: MemoryItem, relevance: float | None = None) -> outputs.FoundMemory:
    return outputs.FoundMemory(
        id=item.id,
        text=item.text,
        type=item.type,
        tags=list(item.tags),
        date=item.created.date().isoformat() if item.created else None,
        source=item.source,
        trust=item.trust,
        relevance=None if relevance is None else round(relevance, 4),
    )
