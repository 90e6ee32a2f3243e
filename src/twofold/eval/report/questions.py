"""Single questions: what got better, what got worse, what nobody found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeAlias

from twofold.eval.comparing import Change, Comparison
from twofold.eval.retrievers import Found
from twofold.eval.runs import Answer, Run

TextOf: TypeAlias = Callable[[str], str | None]
_HITS = 5
_LENGTH = 260
SHOWN = 10


def changes(title: str, found: Sequence[Change], comparison: Comparison, text_of: TextOf) -> str:
    """Questions with the hits of both runs side by side, the first one open."""
    if not found:
        return f'<h3>{escape(title)}</h3><p class="soft">None.</p>'
    names = (comparison.baseline.name, comparison.challenger.name)
    items = [_change(change, names, text_of, opened=i == 0) for i, change in enumerate(found[:SHOWN])]
    return f"<h3>{escape(title)} ({len(found)})</h3>{''.join(items)}{_more(len(found))}"


def _change(change: Change, names: tuple[str, str], text_of: TextOf, *, opened: bool) -> str:
    kind = "good" if change.difference > 0 else "bad"
    sides = "".join(
        f"<div><h4>{escape(name)}</h4>{_hits(answer, text_of)}</div>"
        for name, answer in zip(names, (change.before, change.after), strict=True)
    )
    unseen = [i for i in change.question.relevant if i not in change.before.ids[:_HITS] + change.after.ids[:_HITS]]
    return (
        f"<details{' open' if opened else ''}><summary><span>{escape(change.question.text)}</span>"
        f'<span class="change {kind}">{change.difference:+.2f}</span></summary>'
        f'<div class="sides">{sides}</div>{_expected(unseen, text_of)}</details>'
    )


def missed(run: Run, metric: str, text_of: TextOf) -> str:
    """The questions where a run found nothing right."""
    scores = zip(run.answers, run.scores[metric], strict=True)
    answers = [answer for answer, score in scores if score == 0]
    return _listed(answers, text_of) if answers else '<p class="soft">None.</p>'


def wrongly_answered(run: Run, text_of: TextOf) -> str:
    """The questions whose right answer is nothing, and which got hits."""
    answers = [answer for answer in run.answers if answer.question.expects_nothing and answer.found]
    return _listed(answers, text_of) if answers else '<p class="soft">None.</p>'


def _listed(answers: Sequence[Answer], text_of: TextOf) -> str:
    items = [
        f"<details><summary><span>{escape(answer.question.text)}</span></summary>"
        f'<div class="expected"><h4>found</h4>{_hits(answer, text_of)}</div>'
        f"{_expected(answer.question.relevant, text_of)}</details>"
        for answer in answers[:SHOWN]
    ]
    return "".join(items) + _more(len(answers))


def _expected(ids: Iterable[str], text_of: TextOf) -> str:
    items = "".join(_item(Found(identity), text_of, right=True) for identity in list(ids)[:_HITS])
    return f'<div class="expected"><h4>right answers not shown above</h4><ol>{items}</ol></div>' if items else ""


def _hits(answer: Answer, text_of: TextOf) -> str:
    right = answer.question.relevant
    items = "".join(_item(hit, text_of, right=hit.id in right) for hit in answer.found[:_HITS])
    return f"<ol>{items}</ol>" if items else '<p class="soft">nothing</p>'


def _item(hit: Found, text_of: TextOf, *, right: bool) -> str:
    text = " ".join((hit.text or text_of(hit.id) or "").split())
    short = text if len(text) <= _LENGTH else f"{text[:_LENGTH].rsplit(' ', 1)[0]} …"
    return f'<li class="{"right" if right else ""}">{escape(short)} <span class="id">{escape(hit.id)}</span></li>'


def _more(count: int) -> str:
    return f'<p class="soft">and {count - SHOWN} more</p>' if count > SHOWN else ""
