"""An agent of the OpenAI Agents SDK that remembers from one run to the next.

A script takes the place of the model, so this needs no key and no network; with a real one, leave `model` out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from twofold import Memory
from twofold.openai_agents import memory_tools
from twofold.testing import Script, ToolCall


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        line = self.script.next(input if isinstance(input, str) else input[-1].get("output") or input[-1]["content"])
        number = str(len(self.script.shown))
        said: ResponseFunctionToolCall | ResponseOutputMessage
        if isinstance(line, ToolCall):
            said = ResponseFunctionToolCall(type="function_call", call_id=number, name=line.name, arguments=line.json)
        else:
            text = ResponseOutputText(type="output_text", text=line, annotations=[])
            said = ResponseOutputMessage(
                id=number, type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("a script is not streamed")


def run(folder: str, prompt: str, script: Script) -> str:
    with Memory.open(folder, user="ada") as memory:
        agent = Agent(name="assistant", tools=list(memory_tools(memory)), model=ScriptedModel(script))
        result = Runner.run_sync(agent, prompt, run_config=RunConfig(tracing_disabled=True))
    return str(result.final_output)


def main() -> None:
    save = ToolCall("memory_save", {"text": "Ada's rathole tunnels listen on port 2333.", "tags": ["infra"]})
    print(run("./memories", "My rathole tunnels listen on 2333.", Script(save, "I will remember that.")))

    search = ToolCall("memory_search", {"query": "port of the rathole tunnels"})
    answer = Script(search, lambda found: "On port 2333." if "port 2333" in found else "I don't know.")
    print(run("./memories", "Where do my tunnels listen?", answer))


if __name__ == "__main__":
    main()
