"""A model that says what a script says, and notes what it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM


def say(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def call(name: str, **arguments: Any) -> ChatMessage:
    block = ToolCallBlock(tool_call_id=f"call-{name}", tool_name=name, tool_kwargs=arguments)
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[block])


class Script:
    """Plays the model's part."""

    def __init__(self, *lines: ChatMessage) -> None:
        self.lines = list(lines)
        self.shown: list[list[ChatMessage]] = []
        self.model = MockFunctionCallingLLM(response_generator=self._next, is_chat_model=True)

    def _next(self, messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        self.shown.append(deepcopy(list(messages)))
        return self.lines.pop(0)

    def last_shown(self) -> str:
        return "\n".join(str(message.content) for message in self.shown[-1])
