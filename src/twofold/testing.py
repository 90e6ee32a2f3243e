"""Stand-ins for models, sensitive to the text, so that ranking can be tested without loading one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from twofold.text import words


class HashEmbedding:
    """Embeds a text as the sum of one fixed direction per word: texts that share words are near each other.

    Fast, deterministic and free of any model; takes the place of an embedding wherever one is accepted.
    """

    def __init__(self, dim: int = 64, name: str = "hash") -> None:
        self.dim = dim
        self.model_name = f"{name}-{dim}"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors to store."""
        return [self._embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """A vector to search with."""
        return self._embed(text)

    def _embed(self, text: str) -> list[float]:
        total = [0.0] * self.dim
        for word in words(text) or [text]:
            for place, value in enumerate(self._direction(word)):
                total[place] += value
        length = math.sqrt(sum(value * value for value in total)) or 1.0
        return [value / length for value in total]

    def _direction(self, word: str) -> list[float]:
        noise = hashlib.shake_128(word.encode("utf-8", "replace")).digest(self.dim)
        return [byte / 127.5 - 1 for byte in noise]
