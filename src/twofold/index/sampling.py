"""Looking at some of what is stored, so that scores mean something there: see `ranking/calibration.py`.

Some texts with their vectors, and what two dozen unrelated questions find. It costs a few milliseconds at the first
search of a collection, or of a user's part of it, and again when a tenth of it has changed.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.encoders.base import check_dense
from twofold.encoders.languages import OTHER, language_of
from twofold.encoders.models import MULTILINGUAL_LANGUAGES
from twofold.engine import calls
from twofold.engine.layout import ScoredPoint, from_point
from twofold.engine.requests import VectorQuery
from twofold.errors import EngineError
from twofold.filters import HasVector, Node, Not
from twofold.flow import Flow, Work
from twofold.ranking.calibration import Calibration, Probe, calibrate, unit, unrelated_questions

if TYPE_CHECKING:
    from twofold.index.opening import Ready

log = logging.getLogger("twofold")

_SAMPLED_TEXTS = 200
_COUNTED_ROWS = 1000
_PROBED_HITS = 20
_LETTERS_PER_WORD = 6  # with the space behind it; some scripts put none
# The share is drawn towards 0 as if there were so many texts more in a known language: one or two say nothing.
_DOUBTFUL_TEXTS = 5
_SHORT_TEXT_WEIGHT = 0.25
_MOST_TEXTS = 0.5
_LOOK_AGAIN_SECONDS = 600.0
_TRY_AGAIN_SECONDS = 30.0  # where a model failed
_OUTDATED_SHARE = 0.1
_COUNT_AGAIN_SECONDS = 1.0  # where others on this machine write too, and asking costs next to nothing
_REMEMBERED_PARTS = 256
_BAD_REQUEST = 400


class _Seen(NamedTuple):
    calibration: Calibration
    changes: int
    valid_until: float
    counted_at: float


class Sampler:
    """Looks at some of what is stored: the same texts whoever asks, so that everybody ranks alike."""

    def __init__(self) -> None:
        self._changes = 0
        self._wordless: str | None = None
        self._counted_at, self._count_until = 0, 0.0
        self._seen: dict[tuple[str, bool], _Seen] = {}
        self.questions: dict[tuple[str, ...], Any] = {}
        """The vectors of unrelated questions, which don't change with what is stored."""
        self._language_told = False
        self.imports = 0
        """How often rows came from somewhere else, past those who know what they hold."""

    def tell_language(self, ready: Ready, language: str) -> None:
        """Say once that most texts are in a language that the dense model doesn't know, and what helps."""
        if self._language_told:
            return
        self._language_told = True
        named = "not English" if language in (ready.dense.languages or ()) else language
        helps = (
            "dense=\"multilingual\" (pip install 'twofold[multilingual]')"
            if language in MULTILINGUAL_LANGUAGES
            else "a model that knows it"
        )
        log.warning(
            "%s does not know the language of most texts in collection %r (%s), so words count more: for meaning, add "
            "them to a new collection with %s",
            *(ready.dense.name, ready.collection, named, helps),
        )

    def changed(self, texts: int) -> None:
        """So many have been written or deleted."""
        self._changes += texts

    def wordless(self, ready: Ready) -> Flow[str | None]:
        """What to say of rows without words; looked at now and then, and again when some may have got theirs."""
        changed = self._changes != self._counted_at and self._wordless is not None
        if changed or time.monotonic() >= self._count_until:
            self._counted_at, self._count_until = self._changes, time.monotonic() + _LOOK_AGAIN_SECONDS
            self._wordless = yield from without_words(ready)
        return self._wordless

    def imported(self, texts: int) -> None:
        """So many came as they were stored elsewhere."""
        self.changed(texts)
        self.imports += 1

    def calibration(
        self, ready: Ready, part: Node | None, *, meaning: bool = True, anew: bool = False
    ) -> Flow[Calibration]:
        """What was seen last, unless enough was written here since to matter, or others had time to.

        A search without `meaning` doesn't ask the dense model: it may be down, or cost something.
        """
        meaning = meaning and not ready.no_dense
        key = repr(part), meaning  # a filter of the engine's own can't be hashed
        last, changes = self._seen.get(key), self._changes
        fresh = last is not None and not anew and time.monotonic() < last.valid_until
        if last is not None and fresh and changes - last.changes <= _OUTDATED_SHARE * last.calibration.total:
            others_changed = ready.engine.near and (yield from self._others_changed(ready, part, key, last))
            if not others_changed:
                return last.calibration
        seen, whole = yield from _look(ready, part, meaning)
        if len(self._seen) >= _REMEMBERED_PARTS:
            self._seen.clear()
        valid = _LOOK_AGAIN_SECONDS if whole else _TRY_AGAIN_SECONDS
        now = time.monotonic()
        self._seen[key] = _Seen(seen, changes, now + valid, now)
        return seen

    def _others_changed(self, ready: Ready, part: Node | None, key: tuple[str, bool], last: _Seen) -> Flow[bool]:
        """Whether so many texts came or went that what was seen last is out of date."""
        now = time.monotonic()
        if now - last.counted_at < _COUNT_AGAIN_SECONDS:
            return False
        self._seen[key] = last._replace(counted_at=now)
        total = last.calibration.total
        return abs((yield from calls.count(ready.collection, part)) - total) > _OUTDATED_SHARE * total


def without_words(ready: Ready) -> Flow[str | None]:
    """What to say of rows that have a text but no words, counted in the whole collection; None if there are none."""
    if ready.no_lexical:
        return None
    lacking, layout = Not(HasVector(str(ready.layout.sparse))), ready.layout
    rows, more = yield from calls.scroll(ready.collection, lacking, limit=_COUNTED_ROWS, only=(layout.text_key,))
    texts = [text for row in rows if (text := from_point(row, layout).text)]
    # Some have none to begin with: "to be or not to be".
    number = (yield from _encoded(lambda: sum(bool(ready.sparse.embed_query(text).indices) for text in texts))) or 0
    if number and more is not None:
        number = yield from calls.count(ready.collection, lacking)
    mend = "index.repair() adds them, or memory.backfill() where they are memories"
    return f"{number:,} rows have no words, so only meaning finds them: {mend}" if number else None


def _look(ready: Ready, part: Node | None, meaning: bool) -> Flow[tuple[Calibration, bool]]:
    """What is there, and whether all questions could be asked."""
    layout = ready.layout
    rows, more = yield from calls.scroll(
        ready.collection,
        part,
        limit=_SAMPLED_TEXTS,
        only=(layout.text_key,),
        vectors=layout.dense_names if meaning else (),
    )
    total = len(rows) if more is None else (yield from calls.count(ready.collection, part))
    texts = [text for row in rows if (text := from_point(row, layout).text).strip()]
    language, unknown = _languages(texts, ready.dense.languages, ready.sparse.settings.get("language", "english"))
    if meaning and texts and unknown >= _MOST_TEXTS:
        ready.sampler.tell_language(ready, language)
    vectors = [vector for row in rows if (vector := layout.dense_of(row)) is not None]
    probes, whole = (yield from _ask(ready, part, unrelated_questions(language), meaning)) if texts else ([], True)
    seen = calibrate(
        np.array([unit(vector) for vector in vectors]) if vectors else None,
        probes,
        texts=len(rows),
        total=total,
        words_per_text=sum(map(len, texts)) / max(len(texts), 1) / _LETTERS_PER_WORD,
        unknown_language=unknown,
        word_weight=ready.dense.word_weight,
    )
    return seen, whole


def _ask(ready: Ready, part: Node | None, questions: Sequence[str], meaning: bool) -> Flow[tuple[list[Probe], bool]]:
    """What each question finds by meaning and by words, in one batch; and whether it could be asked by both."""
    nothing: Sequence[Any] = [None] * len(questions)
    vectors = words = nothing
    if meaning:
        vectors = yield from _encoded(lambda: _embedded(ready, tuple(questions)))
    if not ready.no_lexical:
        words = yield from _encoded(lambda: [ready.sparse.embed_query(each) for each in questions])
    if vectors is None:
        return [], False
    whole, words = words is not None, nothing if words is None else words
    requests: list[VectorQuery] = []
    for vector, worded in zip(vectors, words, strict=True):
        if vector is not None:
            requests.append(VectorQuery(vector, _PROBED_HITS, part))
        if worded is not None and worded.indices:
            corpus = part if ready.corpus_idf else None
            requests.append(VectorQuery(worded, _PROBED_HITS, part, idf_corpus=corpus))
    answers = iter((yield from _answers(ready, requests)) if requests else ())
    probes = []
    for vector, worded in zip(vectors, words, strict=True):
        near = next(answers) if vector is not None else ()
        found = next(answers) if worded is not None and worded.indices else ()
        probes.append(_probe(vector, near, found, 1 if worded is None else worded.terms))
    return probes, whole


def _answers(ready: Ready, requests: Sequence[VectorQuery]) -> Flow[list[Sequence[ScoredPoint]]]:
    """What they find, in one batch; one by one where a server in strict mode takes no batch of that size."""
    try:
        return (yield from calls.query(ready.collection, requests))
    except EngineError as error:
        if error.status != _BAD_REQUEST:
            raise
    answers = []
    for request in requests:
        answers += yield from calls.query(ready.collection, [request])
    return answers


def _encoded(encode: Callable[[], Any]) -> Flow[Any]:
    """None where a model fails: the search itself reports that, and goes on without it."""
    try:
        return (yield Work(encode))
    except Exception:
        return None


def _probe(vector: Any, near: Iterable[ScoredPoint], worded: Iterable[ScoredPoint], terms: int) -> Probe:
    cosines = {point.id: point.score for point in near}
    lexical = {point.id: point.score for point in worded}
    found = sorted({*cosines, *lexical}, key=str)
    return Probe(
        vector,
        np.array([cosines.get(each, np.nan) for each in found], dtype=np.float64),
        np.array([lexical.get(each, 0.0) for each in found], dtype=np.float64),
        terms,
    )


def _embedded(ready: Ready, questions: tuple[str, ...]) -> Any:
    known, encoder = ready.sampler.questions, ready.dense
    if questions not in known:
        raw = np.asarray([encoder.embed_query(each) for each in questions])
        known[questions] = check_dense(raw, len(questions), ready.dim, encoder.name)
    return known[questions]


def _languages(texts: Sequence[str], known: Collection[str] | None, configured: str) -> tuple[str, float]:
    """The language of most texts, and the share of texts in languages that the dense model doesn't know.

    Texts too short to tell most likely are in one that it knows. Which language it is that has no list of stop words,
    only the settings of the collection can say.
    """
    seen = [_language(text) for text in texts]
    counts = Counter(configured if each == OTHER and configured != "english" else each for each in seen)
    told = {language: count for language, count in counts.items() if language is not None}
    most = max(sorted(told), key=lambda language: told[language], default=configured)
    most = configured if most == OTHER else most
    if known is None:
        return most, 0.0
    if configured not in known:
        return most, 1.0
    unknown = sum(count for language, count in told.items() if language not in known)
    prose = sum(told.values()) + _SHORT_TEXT_WEIGHT * counts[None] + _DOUBTFUL_TEXTS
    return most, round(unknown / prose, 1)


_language = lru_cache(maxsize=4096)(language_of)
