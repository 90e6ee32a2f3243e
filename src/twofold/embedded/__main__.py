"""Commands of the embedded engine, each in a process of its own.

    python -m twofold.embedded import SOURCE DESTINATION     a store of qdrant-client's local mode, brought over

`optimize` and `try` are the store's own: it runs this file as a script, to build the search index of one shard
(`optimize.py`), or to see whether the engine can load one (`seal.py`). That imports the engine alone, from where its
parent has it, so it starts fast and works wherever that is installed: which is why nothing of Twofold is imported at
the top.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twofold.embedded import ImportProgress

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m twofold.embedded")
    commands = parser.add_subparsers(dest="command", required=True, metavar="import")
    importing = commands.add_parser("import", help="import a store written by qdrant-client's local mode")
    importing.add_argument("source")
    importing.add_argument("destination")
    for command in ("optimize", "try"):
        for_the_store = commands.add_parser(command)
        for name in ("shard", "engine", "parent"):
            for_the_store.add_argument(name)
    given = parser.parse_args(arguments)
    if given.command == "import":
        return _import(given.source, given.destination)
    return _with_engine(given.command, given.shard, given.engine, int(given.parent))


def _import(source: str, destination: str) -> int:
    from twofold.embedded import EmbeddedError, StoreError, import_local_store

    try:
        counts = import_local_store(source, destination, _show)
    except (StoreError, EmbeddedError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, count in counts.items():
        print(f"{name}: {count} points")
    return 0


def _show(step: ImportProgress) -> None:
    end = "\n" if step.done == step.total else ""
    print(f"\r{step.collection}: {step.done} of {step.total}", end=end, file=sys.stderr)


def _with_engine(command: str, path: str, engine: str, parent: int) -> int:
    if command == "optimize":
        with suppress(OSError, AttributeError):
            os.nice(10)  # queries of the parent come first
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):  # when it dies, this work is for nothing
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 0  # it died before it could be watched
    sys.path.insert(0, engine)
    import qdrant_edge as edge

    sys.path.remove(engine)
    try:
        shard = edge.EdgeShard.load(path)
        if command == "optimize":
            shard.optimize()
        else:
            shard.count(edge.CountRequest(True))
        shard.flush()
        shard.close()
    except BaseException as error:  # the engine's panics are no Exceptions
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
