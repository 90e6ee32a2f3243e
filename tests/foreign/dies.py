"""A process that adopts or re-embeds a folder, and dies at a request of its own choice.

python -m tests.foreign.dies FOLDER adopt|reembed REQUESTS    # -1 to live
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from tests.foreign.shelf import Model
from tests.foreign.write import COLLECTION
from twofold import HybridIndex
from twofold.testing import HashEmbedding

OTHER = HashEmbedding(32, name="other")


def opened(folder: str, action: str) -> HybridIndex:
    """With the model that the collection has by now."""
    from twofold import CollectionMismatch

    try:
        return HybridIndex.open(folder, COLLECTION, dense=Model(), create=False)
    except CollectionMismatch:
        if action != "reembed":
            raise
        return HybridIndex.open(folder, COLLECTION, dense=OTHER, create=False)


def main(folder: str, action: str, requests: int) -> None:
    index = opened(folder, action)
    connection: Any = index._connection
    real, made = connection.call, 0

    def call(step: Any) -> Any:
        nonlocal made
        if made == requests:
            os.kill(os.getpid(), signal.SIGKILL)
        made += 1
        return real(step)

    connection.call = call
    if action != "reembed":
        index.adopt()
    elif index.dense_dim != OTHER.dim:
        index.reembed(OTHER)
    print(made)
    connection.call = real
    index.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
