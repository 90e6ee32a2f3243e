"""Optimise one shard's directory; run as a script in a process of its own.

It imports the engine alone, from where its parent has it, so it starts fast and works wherever that is installed.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def main(path: str, engine: str, parent: int) -> None:
    _be_modest()
    if os.getppid() != parent:
        return  # it died before it could be watched
    sys.path.insert(0, engine)
    import qdrant_edge as edge

    sys.path.remove(engine)
    shard = edge.EdgeShard.load(path)
    shard.optimize()
    shard.flush()
    shard.close()


def _be_modest() -> None:
    """Queries of the parent come first; and when it dies, this work is for nothing."""
    with suppress(OSError, AttributeError):
        os.nice(10)
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
