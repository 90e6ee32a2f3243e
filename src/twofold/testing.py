"""Stand-ins for models, sensitive to the text, so that ranking and agents can be tested without loading one."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twofold.text import words

if TYPE_CHECKING:
    from twofold.memory import Memory


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
            for place, byte in enumerate(hashlib.shake_128(word.encode("utf-8", "replace")).digest(self.dim)):
                total[place] += byte / 127.5 - 1
        length = math.sqrt(sum(value * value for value in total)) or 1.0
        return [value / length for value in total]


def fake_memory(memories: Iterable[str | Mapping[str, Any]] = (), *, user: str = "ada", **options: Any) -> Memory:
    """A memory of its own in this process, with a `HashEmbedding`: opened in milliseconds, gone when it is closed.

    It gives what is nearest to any query: such a model can't tell what is about something else.

    Args:
        memories: What it knows from the start, as for `Memory.remember_many`.
        user: Whose it is.
        options: Whatever else `Memory.open` takes.
    """
    from twofold.memory import Memory, MemoryConfig

    usual: dict[str, Any] = {"user": user, "dense": HashEmbedding(), "config": MemoryConfig(min_score=None)}
    memory = Memory.open(":memory:", **{**usual, **options})
    memory.remember_many(memories)
    return memory


@dataclass(frozen=True)
class ToolCall:
    """A model's wish to use a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def json(self) -> str:
        """The arguments as a model writes them."""
        return json.dumps(self.arguments)


class Script:
    """Takes the place of a chat model: says its lines one after the other, and notes what it was shown.

    A line is a `ToolCall`, a text, or a function that makes one of them from what the model is shown: the result of
    the tool, the user's words.
    """

    def __init__(self, *lines: Any) -> None:
        self._lines = list(lines)
        self.shown: list[str] = []
        """What the model was shown before each line."""

    def next(self, shown: object = "") -> ToolCall | str:
        """The next line; an error if there is none: the agent went on for longer than planned."""
        self.shown.append(str(shown))
        if len(self.shown) > len(self._lines):
            raise AssertionError(f"the script has {len(self._lines)} lines, and the agent asked for one more: {shown}")
        line = self._lines[len(self.shown) - 1]
        said: ToolCall | str = line(str(shown)) if callable(line) else line
        return said
