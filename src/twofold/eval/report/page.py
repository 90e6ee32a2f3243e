"""The page: its sections, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from importlib.resources import files

from twofold.eval.charts import Chart
from twofold.eval.comparing import Comparison, compare
from twofold.eval.data import Dataset
from twofold.eval.report import questions
from twofold.eval.report.questions import TextOf
from twofold.eval.report.svg import draw
from twofold.eval.report.tables import parts_table, runs_table
from twofold.eval.runs import Run, common_k
from twofold.eval.scoring import label

_HELP = """
<b>Hit rate</b>: share of questions with a right answer among the first k. <b>MRR</b>: mean of 1 / rank of the first
right answer. <b>nDCG</b>: how close the order is to the best possible one. <b>Recall</b>: share of the right answers
among the first k. A question that got nothing counts as 0. <b>Difference</b>: to the first run, with the range in which
it lies 95 % of the time if other questions of this kind are asked (paired bootstrap). <b>p</b>: how often chance alone
makes a difference this large (paired randomisation); coloured below 0.05. <b>Right nothing</b>: of the questions whose
right answer is nothing, the share that got it. <b>Unanswered</b>: of the others, the share that got nothing.
"""


class Page:
    """All that a report says about some runs; the first is the baseline."""

    def __init__(self, data: Dataset, runs: Sequence[Run], metric: str, by: str | None, text_of: TextOf) -> None:
        self._data, self._runs, self._metric, self._by, self._text_of = data, runs, metric, by, text_of
        comparable = not math.isnan(runs[0][metric]) and len({run.k for run in runs}) == 1
        self._comparisons = [compare(runs[0], run, metric) for run in runs[1:]] if comparable else []
        self._best = max(runs, key=lambda run: -1.0 if math.isnan(run[metric]) else run[metric])

    def html(self, chart: Chart) -> str:
        """The whole file."""
        style = files("twofold.eval.report").joinpath("style.css").read_text("utf-8")
        sections = [self._head(), self._cards(), self._table(), self._chart(chart), self._parts()]
        sections += [self._differences(), self._missed(), self._nothing(), f"<footer>{_HELP}</footer>"]
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self._data.name)}: retrieval quality</title>\n<style>\n{style}</style></head>\n"
            f"<body><main>\n{chr(10).join(section for section in sections if section)}\n</main></body></html>\n"
        )

    def _head(self) -> str:
        facts = [f"{len(self._data.questions):,} questions"]
        facts += [f"{len(self._data.documents):,} documents"] if self._data.documents else []
        facts.append(datetime.now(timezone.utc).strftime("%Y-%m-%d"))
        return f'<h1>{escape(self._data.name)}</h1><p class="soft">{" · ".join(facts)}</p>'

    def _cards(self) -> str:
        best = self._best
        figures = [(f"{value:.3f}", label(metric, best.k)) for metric, value in best.metrics.items()]
        figures.append((f"{best.latency():.1f} ms", "median time a question"))
        cards = "".join(f'<div class="card"><b>{figure}</b><span>{name}</span></div>' for figure, name in figures)
        return f'<p>Best by {label(self._metric)}: <b>{escape(best.name)}</b></p><div class="cards">{cards}</div>'

    def _table(self) -> str:
        reasons = [(run.name, reason) for run in self._runs for reason in run.degraded]
        notes = "".join(f'<p class="bad">{escape(name)}: {escape(reason)}</p>' for name, reason in reasons)
        return f"<h2>Runs</h2>{runs_table(self._runs, self._comparisons)}{notes}"

    def _chart(self, chart: Chart) -> str:
        if len(chart.places) < 2:
            return ""
        title = f"{chart.y or 'Metrics'} over {chart.x}" if chart.x else "Side by side"
        return f"<h2>{escape(title)}</h2><figure>{draw(chart)}</figure>"

    def _parts(self) -> str:
        if self._by is None:
            return ""
        title = f"{label(self._metric, common_k(self._runs))} by {self._by}"
        return f"<h2>{escape(title)}</h2>{parts_table(self._runs, self._by, self._metric)}"

    def _differences(self) -> str:
        chosen = self._shown()
        if chosen is None:
            return ""
        wins = questions.changes("Better", chosen.wins, chosen, self._text_of)
        losses = questions.changes("Worse", chosen.losses, chosen, self._text_of)
        title = f"{chosen.challenger.name} against {chosen.baseline.name}, question by question"
        return f"<h2>{escape(title)}</h2>{wins}{losses}"

    def _shown(self) -> Comparison | None:
        """The best run against the baseline; where the baseline is the best, the next best against it."""
        return max(self._comparisons, key=lambda one: one.difference, default=None)

    def _missed(self) -> str:
        listed = questions.missed(self._best, self._metric, self._text_of)
        return f"<h2>Not found by {escape(self._best.name)}</h2>{listed}"

    def _nothing(self) -> str:
        if self._best.answered_nothing is None:
            return ""
        listed = questions.wrongly_answered(self._best, self._text_of)
        return f"<h2>Answered by {escape(self._best.name)} where nothing is right</h2>{listed}"
