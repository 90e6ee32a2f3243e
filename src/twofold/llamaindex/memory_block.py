"""`HybridMemoryBlock`: long-term memory for `llama_index.core.memory.Memory`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory import BaseMemoryBlock

from twofold.errors import ConfigError, TwofoldError
from twofold.memory.items import as_data
from twofold.memory.memory import Memory
from twofold.memory.turns import Turn

log = logging.getLogger("twofold")
_TRUST = {MessageRole.USER: "user", MessageRole.ASSISTANT: "agent"}
"""Who speaks, and how far that is trusted. Other messages (the system's, those of tools) are not remembered."""


class HybridMemoryBlock(BaseMemoryBlock[str]):
    """Remembers what leaves the short-term memory, and brings back what fits the last messages.

    What it brings back is marked as data, so that a model reads it and doesn't obey it. If the memory fails, that is
    logged as a warning and the agent goes on without it.
    """

    name: str = Field(default="long_term_memory", description="The name of the block in the prompt.")
    memory: Memory = Field(description="Whose memories.", exclude=True)
    similarity_top_k: int = Field(default=5, ge=1, description="How many memories at most.")
    window: int = Field(default=2, ge=1, description="How many of the last messages say what to look for.")
    min_score: float | None = Field(default=None, description="Leave out memories below this score.")
    session: str | None = Field(default=None, description="The session of messages that don't name theirs.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        spoken = [text for message in messages or () if (text := _said(message))]
        query = "\n".join(spoken[-self.window :])
        if not query:
            return ""
        try:
            found = await self.memory.arecall(query, self.similarity_top_k, min_score=self.min_score)
        except TwofoldError as error:
            if isinstance(error, ValueError):  # what is wrong in our arguments stays an error
                raise
            log.warning("the agent goes on without memory, which failed to recall: %s", error)
            return ""
        return as_data(found) if len(found) else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        own = self.memory.session
        for (session, trust), turns in _runs(messages, own, self.session):
            await self.memory.aremember_turns(turns, session=session, trust=trust)


def _said(message: ChatMessage) -> str:
    """What a person or the assistant said; empty for anything else, and for a message without text."""
    return (message.content or "").strip() if message.role in _TRUST else ""


def _runs(
    messages: Sequence[ChatMessage], own: str | None, usual: str | None
) -> Iterator[tuple[tuple[str, str], list[Turn]]]:
    """Turns in their order, as far as they have the same session and the same trust."""
    spoken = [message for message in messages if _said(message)]
    for key, run in groupby(spoken, key=lambda message: (own or _session(message, usual), _TRUST[message.role])):
        yield key, [Turn(_said(message), message.role.value) for message in run]


def _session(message: ChatMessage, usual: str | None) -> str:
    session = message.additional_kwargs.get("session_id") or usual
    if not session:
        raise ConfigError('messages belong to a session: aput(…, session_id="…"), or HybridMemoryBlock(session="…")')
    return str(session)
