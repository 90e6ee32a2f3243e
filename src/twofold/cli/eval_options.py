"""Options that `twofold eval` and `twofold sweep` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

EvalData: TypeAlias = Annotated[str, typer.Argument(metavar="DATA", help="A folder, or a .jsonl or .csv file.")]
EvalLocation: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--location",
        "-l",
        help="The index to ask. Default: the documents of DATA, in memory; if it has none, ./index.",
    ),
]
EvalUser: TypeAlias = Annotated[
    str | None,
    typer.Option("--user", "-u", help="Ask this user's memory at the location, or DATA's documents as memories."),
]
EvalMetric: TypeAlias = Annotated[str, typer.Option("--metric", help="What runs are compared by.")]
EvalBy: TypeAlias = Annotated[
    str | None, typer.Option("--by", help="Split the figures by this field of the questions.")
]
EvalSame: TypeAlias = Annotated[
    str | None,
    typer.Option("--same", help="Search only documents whose metadata field has the question's own value."),
]
EvalSplit: TypeAlias = Annotated[str | None, typer.Option("--split", help="Which of qrels/*.tsv. Default: test.")]
EvalSample: TypeAlias = Annotated[
    int | None, typer.Option("--sample", min=1, help="Ask this many of the questions, spread evenly.")
]
EvalHtml: TypeAlias = Annotated[Path | None, typer.Option("--html", help="Write a report to this file.")]
EvalPlot: TypeAlias = Annotated[Path | None, typer.Option("--plot", help="Draw a chart: .png, .svg or .pdf.")]
EvalLanguage: TypeAlias = Annotated[
    str | None, typer.Option("--language", help="Language of the documents of DATA. Default: english.")
]
