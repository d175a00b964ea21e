"""Memories, scripted models, and graphs with a memory, for the tests of several integrations."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    MemoryMessagesState,
    TokenMemory,
    TokenMemoryMiddleware,
    memory_input,
    memory_nodes,
)
from tests.providers import StrictModel
from tests.summarize.models import Scripted


def thread(name: str = "t", **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": name, **more}, "recursion_limit": 700}


def session(name: str = "s", **more: Any) -> dict[str, Any]:
    return {"configurable": {"session_id": name, **more}}


def texts(messages: Any) -> list[Any]:
    return [message.content for message in messages]


def contents(messages: Any) -> str:
    return "\n".join(str(message.content) for message in messages)


def turns(count: int, start: int = 0, name: str = "", words: int = 40) -> list[BaseMessage]:
    """Return turns of about 100 tokens: `question 0`, `reply 0`, ..., with ids `h0`, `a0`, ..."""
    return [
        message
        for n in range(start, start + count)
        for message in (
            HumanMessage(f"question {n} " + "x " * words, id=f"{name}h{n}"),
            AIMessage(f"reply {n} " + "y " * words * 2, id=f"{name}a{n}"),
        )
    ]


def tool_turns(count: int, words: int = 30) -> list[BaseMessage]:
    """Return turns with a tool call each."""
    said: list[BaseMessage] = []
    for n in range(count):
        call_ = {"name": "f", "args": {"n": n}, "id": f"c{n}"}
        said += [
            HumanMessage(f"Question {n}? " * words, id=f"h{n}"),
            AIMessage("", tool_calls=[call_], id=f"a{n}"),
            ToolMessage(f"line {n}\n" * 6 * words, tool_call_id=f"c{n}", id=f"t{n}"),
            AIMessage(f"Answer {n}. " * words, id=f"b{n}"),
        ]
    return said


# Agents that follow a script


@tool
def look(q: str) -> str:
    """Look something up."""
    return f"{q}: " + "a line of the record\n" * 40


def call(number: int, name: str = "look", **args: Any) -> AIMessage:
    given = args or {"q": f"q{number}"}
    words = f"Step {number}: the record has to be looked at before anything else. " * 4
    return AIMessage(words, tool_calls=[{"name": name, "args": given, "id": f"c{number}"}])


def rounds(number: int, start: int = 0) -> list[AIMessage]:
    """Return so many calls of `look`, and an answer."""
    return [*map(call, range(start, start + number)), AIMessage("Done.")]


def agent_of(script: list, *middleware: Any, family: str = "mistral", tools=(look,), **keywords):
    """Return a model that answers by a script and refuses what its provider refuses; its agent."""
    model = StrictModel(family=family, script=script)
    keywords.setdefault("checkpointer", InMemorySaver())
    return model, create_agent(model, list(tools), middleware=list(middleware), **keywords)


def answers(result: dict[str, Any]) -> list[str]:
    """Return what the tools of a run answered."""
    return [message.content for message in result["messages"] if message.type == "tool"]


# One graph with a memory for each integration that a graph can have; the model says "Yes."


def _yes(_messages: list[BaseMessage]) -> str:
    return "Yes."


def agent_with(memory: TokenMemory | None, saver: Any = None, **keywords: Any):
    model = Scripted(answer=_yes)
    middleware = [TokenMemoryMiddleware(memory, **keywords)]
    return model, create_agent(model, middleware=middleware, checkpointer=saver or InMemorySaver())


def graph_of(
    node: Any, memory: TokenMemory | None = None, saver: Any = None, schema: Any = None, **keywords
):
    """Return a graph of one node, named `model`, behind a memory where there is one."""
    builder = StateGraph(schema or (MemoryMessagesState if memory else MessagesState))
    builder.add_node("model", node)
    builder.add_edge(START, memory_nodes(builder, memory, **keywords) if memory else "model")
    return builder.compile(checkpointer=saver or InMemorySaver())


def graph_with(memory: TokenMemory, saver: Any = None, **keywords: Any):
    model = Scripted(answer=_yes)

    def call_model(state: Any) -> Any:
        return {"messages": model.invoke(memory_input(state, memory))}

    return model, graph_of(call_model, memory, saver, **keywords)


def split_graph_with(memory: TokenMemory, saver: Any = None, **keywords: Any):
    return graph_with(memory, saver, split=True, **keywords)


DOORS = {"middleware": agent_with, "node": graph_with, "three nodes": split_graph_with}


def state_of(graph: Any, name: str = "t") -> dict[str, Any]:
    """Return the memory's state in a thread; empty before its first entry."""
    values = graph.get_state(thread(name)).values
    held: dict[str, Any] = values.get("memory") or (
        values.get("token_memory", {}).get("TokenMemoryMiddleware", {})
    )
    return held


# Checkpoints by hand


def at(thread_id: Any = "t", checkpoint_id: str | None = None, ns: str = "") -> dict[str, Any]:
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, **named}}


def put(
    saver: Any,
    parent: Any,
    name: str | None = None,
    values: Any = None,
    version: Any = 1,
    **metadata: Any,
):
    """Put a checkpoint, with this id or a new one, all its channels new and of one version."""
    versions = dict.fromkeys(values or {}, version)
    made = {
        **empty_checkpoint(),
        **({"id": name} if name else {}),
        "channel_values": values or {},
        "channel_versions": versions,
    }
    return saver.put(
        parent, made, {"source": "loop", "step": 0, "parents": {}, **metadata}, versions
    )


def read(saver: Any, config: Any = None) -> dict[str, Any]:
    """Return the channels of a checkpoint, of the newest one by default."""
    found = saver.get_tuple(config or at())
    assert found is not None
    values: dict[str, Any] = found.checkpoint["channel_values"]
    return values
