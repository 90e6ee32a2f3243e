"""Where the command line writes to, and how it says that something went wrong."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from twofold.errors import TwofoldError

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")


def out() -> Console:
    """Results."""
    return _console(stderr=False)


def err() -> Console:
    """Progress, warnings and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    # Made for each use: the streams of today are not those of the import (tests, pipes).
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """One line that is safe to show: a stored text could hold control codes that repaint the terminal."""
    return _CONTROL.sub(" ", text).strip()


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object, readable where the stream can hold every character."""
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    sys.stdout.write(json.dumps(value, ensure_ascii=not unicode, indent=2) + "\n")
    sys.stdout.flush()


def complain(kind: str, message: str, style: str) -> None:
    """One line on stderr, however long: it stays greppable."""
    from rich.text import Text

    line = Text.assemble((f"{kind}: ", style), printable(message))
    err().print(line, soft_wrap=True)


class Commands(TyperGroup):
    """The commands, with their errors turned into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that can't show ø still gets an answer
        try:
            with _tidy_warnings():
                return super().invoke(ctx)
        except TwofoldError as error:
            complain("error", str(error), "bold red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            _forget_stdout()
            raise typer.Exit(1) from None


class _Tidy(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(record.levelname.lower(), record.getMessage(), "yellow")


@contextmanager
def _tidy_warnings() -> Iterator[None]:
    """Show the package's log and Python's warnings as one line each."""
    logger, handler = logging.getLogger("twofold"), _Tidy(logging.WARNING)
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: complain("warning", str(message), "yellow")
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


@contextmanager
def unrepeated() -> Iterator[None]:
    """Leave out what the log says about a search: `result.degraded` says the same, and is shown."""
    logger = logging.getLogger("twofold")

    def keep(record: logging.LogRecord) -> bool:
        return not hasattr(record, "degraded")

    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


def _forget_stdout() -> None:
    """The reader (`| head`) has gone: what is still buffered goes nowhere, and nobody complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
