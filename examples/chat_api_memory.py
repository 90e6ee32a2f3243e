"""A loop over a chat API, without any framework, that remembers from one run to the next.

A script takes the place of the model, so this needs no key and no network. With a real one, `chat` is a line: for the
openai package, and for any server that speaks its protocol,

    client.chat.completions.create(model="…", messages=messages, tools=tools).choices[0].message.model_dump()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twofold import Memory
from twofold.testing import Script, ToolCall
from twofold.tools import call, json_schemas

Message = dict[str, Any]
Chat = Callable[[list[Message], list[dict[str, Any]]], Message]


def scripted(script: Script) -> Chat:
    def chat(messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        line = script.next(messages[-1]["content"])
        if not isinstance(line, ToolCall):
            return {"role": "assistant", "content": line, "tool_calls": None}
        function = {"name": line.name, "arguments": line.json}
        made = {"id": f"call_{len(script.shown)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}

    return chat


def run(memory: Memory, prompt: str, chat: Chat) -> str:
    tools = json_schemas(memory, "openai")
    messages: list[Message] = [{"role": "user", "content": prompt}]
    while True:
        said = chat(messages, tools)
        messages.append(said)
        if not said["tool_calls"]:
            return str(said["content"])
        for wanted in said["tool_calls"]:  # a call never raises: what went wrong is text for the model
            result = call(memory, wanted["function"]["name"], wanted["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": wanted["id"], "content": result.text})


def main() -> None:
    save = ToolCall("memory_save", {"text": "Ada's rathole tunnels listen on port 2333.", "tags": ["infra"]})
    with Memory.open("./memories", user="ada") as memory:
        print(run(memory, "My rathole tunnels listen on 2333.", scripted(Script(save, "I will remember that."))))

    search = ToolCall("memory_search", {"query": "port of the rathole tunnels"})
    answer = Script(search, lambda found: "On port 2333." if "port 2333" in found else "I don't know.")
    with Memory.open("./memories", user="ada") as memory:
        print(run(memory, "Where do my tunnels listen?", scripted(answer)))


if __name__ == "__main__":
    main()
