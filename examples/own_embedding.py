"""Bring an embedding of your own: any object with embed_documents and embed_query."""

import hashlib
import math
from collections.abc import Sequence

from twofold import CollectionMismatch, HybridIndex


class Trigrams:
    """Counts groups of three letters, so that misspelt words stay near. No model, no download."""

    def __init__(self, dim: int = 512) -> None:
        self.dim = dim
        self.model_name = f"trigrams-{dim}"  # recorded in the collection, and checked when it is opened again

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        padded = f"  {text.lower()} "
        vector = [1e-6] * self.dim
        for start in range(len(padded) - 2):
            digest = hashlib.blake2b(padded[start : start + 3].encode(), digest_size=4).digest()
            vector[int.from_bytes(digest, "big") % self.dim] += 1.0
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector]


FILMS = ["The Matrix", "Interstellar", "Arrival", "Blade Runner"]

with HybridIndex.open("./example-films", dense=Trigrams()) as index:
    index.add(FILMS)
    for typed in ("matriz", "intersteller", "blade runer"):
        hit = index.search(typed, k=1)[0]
        print(f"{typed:14} {hit.text}")

try:
    HybridIndex.open("./example-films", dense=Trigrams(dim=256))
except CollectionMismatch as error:
    print(error)
