"""An agent of Pydantic AI that remembers from one run to the next.

A script takes the place of the model, so this needs no key and no network; with a real one, give `Agent` its name.
"""

from __future__ import annotations

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from twofold import Memory
from twofold.pydantic_ai import memory_tools
from twofold.testing import Script, ToolCall


def scripted_model(script: Script) -> FunctionModel:
    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        line = script.next(getattr(messages[-1].parts[-1], "content", ""))
        said = ToolCallPart(line.name, line.json) if isinstance(line, ToolCall) else TextPart(line)
        return ModelResponse(parts=[said])

    return FunctionModel(respond)


def run(folder: str, prompt: str, script: Script) -> str:
    with Memory.open(folder, user="ada") as memory:
        agent = Agent(scripted_model(script), tools=memory_tools(memory))
        return agent.run_sync(prompt).output


def main() -> None:
    save = ToolCall("memory_save", {"text": "Ada's rathole tunnels listen on port 2333.", "tags": ["infra"]})
    print(run("./memories", "My rathole tunnels listen on 2333.", Script(save, "I will remember that.")))

    search = ToolCall("memory_search", {"query": "port of the rathole tunnels"})
    answer = Script(search, lambda found: "On port 2333." if "port 2333" in found else "I don't know.")
    print(run("./memories", "Where do my tunnels listen?", answer))


if __name__ == "__main__":
    main()
