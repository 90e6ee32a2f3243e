"""The report stands alone, shows what it should, and trusts no text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.eval.sets import NOTES, small
from twofold.eval import (
    CorpusIndex,
    Dataset,
    EvaluationError,
    Question,
    Run,
    Sweep,
    evaluate,
    plot,
    sweep,
    write_report,
)
from twofold.eval.report import chart_of
from twofold.testing import HashEmbedding

DATA = small()


@pytest.fixture(scope="module")
def found() -> Sweep:
    with CorpusIndex(DATA.documents, dense=HashEmbedding(256)) as index:
        return sweep(index, DATA, {"alpha": [0.0, 0.5, 1.0]}, k=2)


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    def nothing(query: str) -> list[str]:
        return []

    def everything(query: str) -> list[str]:
        return list(NOTES)

    return [evaluate(nothing, DATA), evaluate(everything, DATA)]


class _Balance(HTMLParser):
    """Every tag that opens is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str) -> None:
    parser = _Balance()
    parser.feed(page)
    assert not parser.open
    assert not re.search(r"<script|<link|<img|<iframe|https?://|src=|href=|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_a_report_on_runs(runs: list[Run], tmp_path: Path) -> None:
    page = write_report(tmp_path / "report.html", DATA, runs, by="kind").read_text("utf-8")
    check_page(page)
    assert "Best by nDCG: <b>everything</b>" in page
    assert "everything against nothing, question by question" in page
    assert "<h3>Better (4)</h3>" in page
    assert "which port do rathole tunnels use" in page
    assert "right nothing" in page
    assert "Answered by everything where nothing is right" in page
    assert "nDCG@10 by kind" in page


def test_texts_are_escaped_and_looked_up(runs: list[Run], tmp_path: Path) -> None:
    page = write_report(tmp_path / "report.html", DATA, runs).read_text("utf-8")
    assert "cats sleep most of the day &lt;b&gt;and&lt;/b&gt;" in page
    bare = replace(DATA, name="<script>alert(1)</script>", documents=())
    page = write_report(tmp_path / "bare.html", bare, runs, text_of=lambda i: f"text of {i}").read_text("utf-8")
    check_page(page)
    assert "text of tunnel" in page


def test_a_report_on_a_sweep(found: Sweep, tmp_path: Path) -> None:
    baseline = replace(found.runs[0], name="default")
    page = write_report(tmp_path / "sweep.html", DATA, found, baseline=baseline).read_text("utf-8")
    check_page(page)
    assert "Metrics over alpha" in page
    assert "<td>default</td>" in page
    assert len(re.findall(r'<g id="series-\d+">\s*<path class="line c', page)) == len(chart_of(found).series)
    assert "<title>nDCG@2, alpha 0.5:" in page


def test_a_single_run_has_no_chart_and_no_comparison(runs: list[Run], tmp_path: Path) -> None:
    page = write_report(tmp_path / "one.html", DATA, runs[1:]).read_text("utf-8")
    check_page(page)
    assert "<svg" not in page
    assert "question by question" not in page


def test_a_metric_that_counts_stays_on_the_page(tmp_path: Path) -> None:
    def everything(query: str) -> list[str]:
        return list(NOTES)

    def some(query: str, size: int) -> list[str]:
        return ["backup", "cats", "rate"][:size]

    many = Dataset("many", (Question("q", "x", dict.fromkeys(NOTES, 1.0)),))
    runs = [
        evaluate(everything, many, metrics=["hits"]),
        evaluate(some, many, metrics=["hits"], parameters={"size": 2}),
    ]
    page = write_report(tmp_path / "hits.html", many, runs, metric="hits").read_text("utf-8")
    assert all(0 <= float(y) <= 340 for y in re.findall(r'cy="([-0-9.]+)"', page))
    assert all(float(share) <= 100 for share in re.findall(r"--share:([0-9.]+)%", page))
    assert "--share:40.0%" in page


def legend(page: str) -> list[str]:
    """The lines of a chart's legend."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", page.partition('id="legend_1"')[2])


def test_the_legend_names_every_metric_of_a_line(runs: list[Run], tmp_path: Path) -> None:
    every = [evaluate(lambda query: [], DATA, name=name) for name in ("one", "two")]
    page = write_report(tmp_path / "r.html", DATA, every).read_text("utf-8")
    assert " ".join(legend(page)) == "hit rate@10, MRR@10, nDCG@10, recall@10"


def test_a_legend_that_is_too_long_says_how_much_is_missing(tmp_path: Path) -> None:
    def find(query: str, size: int, way: str) -> list[str]:
        return []

    found = sweep(find, DATA, {"size": [1, 2], "way": [f"way number {n} of many" for n in range(20)]})
    page = write_report(tmp_path / "r.html", DATA, found).read_text("utf-8")
    assert re.search(r"and \d+ more</text>", page)
    assert len(legend(page)) > 10
    assert all(0 < float(y) < 340 for y in re.findall(r'<text[^>]* y="([-0-9.]+)"', page))


def test_runs_with_different_k_are_labelled_so() -> None:
    different = [evaluate(lambda query: ["rate"], DATA, k=k) for k in (3, 10)]
    assert "nDCG@k" in ", ".join(chart_of(different).series)


def test_only_questions_that_expect_nothing(tmp_path: Path) -> None:
    data = Dataset("nothing", (Question("q", "zebra", {}),))
    page = write_report(tmp_path / "n.html", data, [evaluate(lambda q: ["a"], data), evaluate(lambda q: [], data)])
    check_page(page.read_text("utf-8"))


def test_charts_of_one_and_of_several_parameters(found: Sweep) -> None:
    chart = chart_of(found)
    assert (chart.x, chart.names, chart.joined) == ("alpha", ("0", "0.5", "1"), True)
    with CorpusIndex(DATA.documents, dense=HashEmbedding(256)) as index:
        several = sweep(index, DATA, {"fusion": ["auto", "rrf"], "alpha": [1.0, 0.0]})
        words = sweep(index, DATA, {"fusion": ["auto", "rrf"]})
    chart = chart_of(several)
    assert (chart.x, chart.y, chart.names) == ("alpha", "nDCG@10", ("0", "1"))
    assert list(chart.series) == ["fusion=auto", "fusion=rrf"]
    assert chart.series["fusion=auto"] == (several.runs[1]["ndcg"], several.runs[0]["ndcg"])
    assert not chart_of(words).joined


def test_metrics_that_agree_everywhere_share_a_line(runs: list[Run]) -> None:
    assert "hit rate@10, recall@10" in chart_of(runs).series


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_plots(found: Sweep, runs: list[Run], tmp_path: Path, kind: str) -> None:
    for result in (found, runs):
        path = plot(result, tmp_path / f"plot.{kind}")
        if kind == "png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            drawn = path.read_text("utf-8")
            assert drawn.count("<use ") >= sum(map(len, chart_of(result).series.values())), "a mark for every point"
            assert all(f"<!-- {name} -->" in drawn for name in chart_of(result).series), "and the name of every line"


def test_files_that_cannot_be_written(found: Sweep, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="can't be written"):
        plot(found, tmp_path / "plot.xyz")
    with pytest.raises(EvaluationError, match="can't be written"):
        write_report(tmp_path / "none" / "r.html", DATA, found)
