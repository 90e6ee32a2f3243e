"""An agent of CrewAI that remembers from one run to the next.

A script takes the place of the model, so this needs no key and no network; with a real one, leave `llm` out. CrewAI
pins many of its dependencies, so give it an environment of its own: pip install "twofold[crewai]"
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")

from crewai import Agent, BaseLLM
from pydantic import PrivateAttr

from twofold import Memory
from twofold.crewai import memory_tools
from twofold.testing import Script, ToolCall


class ScriptedModel(BaseLLM):  # type: ignore[misc]  # crewai is not part of the development environment
    """Says its lines in the way in which agents without native tool calls are asked to."""

    _script: Script = PrivateAttr()

    def __init__(self, script: Script) -> None:
        super().__init__(model="script")
        self._script = script

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        shown = [str(each["content"]) for each in messages]  # the result of a tool is not the last of them
        line = self._script.next("\n".join(shown))
        if isinstance(line, ToolCall):
            return f"Thought: I need a tool.\nAction: {line.name}\nAction Input: {line.json}"
        return f"Thought: I now know the final answer.\nFinal Answer: {line}"

    def supports_function_calling(self) -> bool:
        return False


def run(folder: str, prompt: str, script: Script) -> str:
    with Memory.open(folder, user="ada") as memory:
        tools, model = memory_tools(memory), ScriptedModel(script)
        agent = Agent(role="assistant", goal="help", backstory="You remember.", tools=tools, llm=model)
        return str(agent.kickoff(prompt).raw)


def main() -> None:
    save = ToolCall("memory_save", {"text": "Ada's rathole tunnels listen on port 2333.", "tags": ["infra"]})
    print(run("./memories", "My rathole tunnels listen on 2333.", Script(save, "I will remember that.")))

    search = ToolCall("memory_search", {"query": "port of the rathole tunnels"})
    answer = Script(search, lambda found: "On port 2333." if "port 2333" in found else "I don't know.")
    print(run("./memories", "Where do my tunnels listen?", answer))


if __name__ == "__main__":
    main()
