"""An agent of smolagents that remembers from one run to the next.

A script takes the place of the model, so this needs no key and no network; with a real one, give the agent that.
"""

from __future__ import annotations

from typing import Any

from smolagents import ChatMessage, LogLevel, Model, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from twofold import Memory
from twofold.smolagents import memory_tools
from twofold.testing import Script, ToolCall


class ScriptedModel(Model):  # type: ignore[misc]  # smolagents has no types
    def __init__(self, script: Script) -> None:
        super().__init__(model_id="script")
        self.script = script

    def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        line = self.script.next(messages[-1].content)
        call = line if isinstance(line, ToolCall) else ToolCall("final_answer", {"answer": line})
        function = ChatMessageToolCallFunction(arguments=dict(call.arguments), name=call.name)
        made = ChatMessageToolCall(function=function, id=str(len(self.script.shown)), type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[made])


def run(folder: str, prompt: str, script: Script) -> str:
    with Memory.open(folder, user="ada") as memory:
        agent = ToolCallingAgent(memory_tools(memory), ScriptedModel(script), verbosity_level=LogLevel.OFF)
        return str(agent.run(prompt))


def main() -> None:
    save = ToolCall("memory_save", {"text": "Ada's rathole tunnels listen on port 2333.", "tags": ["infra"]})
    print(run("./memories", "My rathole tunnels listen on 2333.", Script(save, "I will remember that.")))

    search = ToolCall("memory_search", {"query": "port of the rathole tunnels"})
    answer = Script(search, lambda found: "On port 2333." if "port 2333" in found else "I don't know.")
    print(run("./memories", "Where do my tunnels listen?", answer))


if __name__ == "__main__":
    main()
