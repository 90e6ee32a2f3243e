"""python -m tests.foreign.takes_over FOLDER: open what a package wrote, compare texts and metadata, and adopt it."""

from __future__ import annotations

import sys

from qdrant_client import QdrantClient

from tests.foreign.shelf import Model, snapshot
from tests.foreign.write import COLLECTION, NOTES
from twofold import Document, HybridIndex


def main(folder: str) -> None:
    client = QdrantClient(path=folder)
    before = snapshot(client)
    index = HybridIndex.open(client, COLLECTION, dense=Model())
    for text, metadata in NOTES:
        hit = index.search(text, k=1)[0]
        assert hit.text == text
        assert metadata.items() <= hit.metadata.items()
    assert snapshot(client) == before
    assert index.adopt().encoded == len(NOTES)
    with HybridIndex.open(":memory:", dense=Model()) as ours:
        ours.add([Document(text, metadata=metadata) for text, metadata in NOTES])
        for text, _ in NOTES:
            found, wanted = index.search(text, k=3), ours.search(text, k=3)
            assert (found.mode, found.degraded) == ("hybrid", None)
            assert [hit.text for hit in found] == [hit.text for hit in wanted]
    client.close()


if __name__ == "__main__":
    main(sys.argv[1])
