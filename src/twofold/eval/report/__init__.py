"""A report as one HTML file: no scripts, no links to elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twofold.eval.charts import chart_of
from twofold.eval.data import Dataset
from twofold.eval.errors import EvaluationError
from twofold.eval.report.page import Page
from twofold.eval.report.questions import TextOf
from twofold.eval.running import Sweep
from twofold.eval.runs import Run


def write_report(
    path: str | Path,
    data: Dataset,
    result: Sweep | Sequence[Run],
    *,
    baseline: Run | None = None,
    metric: str = "ndcg",
    by: str | None = None,
    text_of: TextOf | None = None,
) -> Path:
    """Write a report on runs or a sweep: figures, a chart, and the questions that made the difference.

    Args:
        path: The .html file.
        data: What was asked.
        result: Runs over these questions, or a sweep.
        baseline: What the others are compared with; by default the first run.
        metric: What they are compared by.
        by: A metadata field of the questions, to split the figures by.
        text_of: Gives the text of a document by id, where neither the data nor the hits have it.
    """
    runs = list(result.runs if isinstance(result, Sweep) else result)
    if baseline is not None and baseline not in runs:
        runs.insert(0, baseline)
    page = Page(data, runs, metric, by, _texts(data, text_of))
    try:
        Path(path).write_text(page.html(chart_of(result, metric)), "utf-8")
    except OSError as error:
        raise EvaluationError(f"the report can't be written to {path}: {error.strerror}") from error
    return Path(path)


def _texts(data: Dataset, text_of: TextOf | None) -> TextOf:
    known = {document.id: document.text for document in data.documents}
    return lambda identity: known.get(identity) or (text_of(identity) if text_of else None)
