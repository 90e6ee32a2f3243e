"""An agent in a compiled graph, with a scripted model: it saves in one run and remembers in the next."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.store.base import BaseStore

from twofold.langgraph import QdrantStore
from twofold.testing import HashEmbedding


@tool
async def save_memory(text: str, config: RunnableConfig, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Remember something about the user."""
    await store.aput(("memories", config["configurable"]["user"]), str(uuid.uuid4()), {"text": text})
    return "saved"


@tool
async def search_memory(query: str, config: RunnableConfig, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Look for what is known about the user."""
    found = await store.asearch(("memories", config["configurable"]["user"]), query=query, limit=1)
    return "\n".join(item.value["text"] for item in found) or "nothing"


def call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": str(uuid.uuid4())}])


def agent(store: BaseStore, script: list[BaseMessage]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A loop of a model and its tools. The model says what the script says, whatever it is asked."""
    model = FakeMessagesListChatModel(responses=script)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def more(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([save_memory, search_memory]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", more, ["tools", END])
    graph.add_edge("tools", "think")
    return graph.compile(store=store)


async def ask(store: BaseStore, user: str, script: list[BaseMessage]) -> list[str]:
    """One run of a new agent; what its tools answered."""
    config: RunnableConfig = {"configurable": {"user": user}}
    state = await agent(store, script).ainvoke({"messages": [HumanMessage("hello")]}, config)
    return [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]


async def test_an_agent_remembers_across_runs(tmp_path: Path) -> None:
    saving: list[BaseMessage] = [
        call("save_memory", text="Ada's rathole tunnel listens on port 2333"),
        call("save_memory", text="Ada is allergic to walnuts"),
        AIMessage("I will remember that."),
    ]
    asking: list[BaseMessage] = [call("search_memory", query="rathole port"), AIMessage("It is 2333.")]
    async with await QdrantStore.aopen(tmp_path / "store", dense=HashEmbedding()) as store:
        assert await ask(store, "ada", saving) == ["saved", "saved"]
    async with await QdrantStore.aopen(tmp_path / "store", dense=HashEmbedding()) as store:
        assert await ask(store, "ada", asking) == ["Ada's rathole tunnel listens on port 2333"]
        assert await ask(store, "bob", asking) == ["nothing"]


@pytest.mark.parametrize("awaited", [False, True], ids=["invoke", "ainvoke"])
async def test_a_node_gets_the_store_that_the_graph_was_compiled_with(awaited: bool) -> None:
    def note(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
        known = store.search(("notes",), query="rathole", limit=5)
        store.put(("notes",), f"{len(known)}", {"text": f"rathole {len(known)}"})
        return {"messages": [AIMessage(str(len(known)))]}

    graph = StateGraph(MessagesState)
    graph.add_node("note", note)
    graph.add_edge(START, "note")
    with QdrantStore(":memory:", dense=HashEmbedding()) as store:
        compiled = graph.compile(store=store)
        said = []
        for _ in range(3):
            asked: Any = {"messages": [HumanMessage("?")]}
            state = await compiled.ainvoke(asked) if awaited else compiled.invoke(asked)
            said.append(state["messages"][-1].content)
        assert said == ["0", "1", "2"]
        assert store.list_namespaces() == [("notes",)]
