"""`python -m twofold.embedded import SOURCE DESTINATION`."""

from __future__ import annotations

import argparse
import sys

from .errors import EmbeddedError, StoreError
from .import_local import ImportProgress, import_local_store


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m twofold.embedded")
    commands = parser.add_subparsers(dest="command", required=True)
    importing = commands.add_parser("import", help="import a store written by qdrant-client's local mode")
    importing.add_argument("source")
    importing.add_argument("destination")
    given = parser.parse_args(arguments)
    try:
        counts = import_local_store(given.source, given.destination, _show)
    except (StoreError, EmbeddedError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, count in counts.items():
        print(f"{name}: {count} points")
    return 0


def _show(step: ImportProgress) -> None:
    print(
        f"\r{step.collection}: {step.done} of {step.total}",
        end="\n" if step.done == step.total else "",
        file=sys.stderr,
    )


if __name__ == "__main__":
    raise SystemExit(main())
