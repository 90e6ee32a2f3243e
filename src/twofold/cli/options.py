"""Options that several commands share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeAlias

import typer

DEFAULT_LOCATION = "./index"
DEFAULT_COLLECTION = "twofold"


class Split(str, Enum):
    """How a text becomes documents."""

    paragraph = "paragraph"
    line = "line"
    file = "file"


Location: TypeAlias = Annotated[
    str,
    typer.Option("--location", "-l", envvar="TWOFOLD_LOCATION", help="A folder, or the URL of a Qdrant server."),
]
Collection: TypeAlias = Annotated[
    str, typer.Option("--collection", "-c", envvar="TWOFOLD_COLLECTION", help="The collection in it.")
]
ApiKey: TypeAlias = Annotated[
    str | None,
    typer.Option("--api-key", envvar="TWOFOLD_API_KEY", show_envvar=True, help="For a server that wants one."),
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", help="Dense model, by fastembed name. Default: the collection's, or the bundled MiniLM."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
