"""Random graphs, and random things to do with them."""

import asyncio
import operator
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Send, interrupt

from tests.adapters.integrations import thread
from tests.strategies import any_text

THREAD = "thread"


def extended(old: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*old, *(one for write in writes for one in write)]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[Any], operator.add]
    delta: Annotated[list[Any], DeltaChannel(extended, list, snapshot_frequency=3)]
    often: Annotated[list[Any], DeltaChannel(extended, list, snapshot_frequency=2)]
    box: Any
    n: int


class Inner(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    inner: Annotated[list[Any], operator.add]


@dataclass(frozen=True)
class Shape:
    """What a graph looks like.

    Attributes:
        branches: What each of the parallel nodes does.
        child: Whether there is a sub-graph, and what of it is kept.
        asks: Whether a node interrupts.
        sends: How many tasks are sent to one node.
        on_the_loop: Whether it runs by its async methods.
        durability: When checkpoints are written.
    """

    branches: tuple[str, ...]
    child: str
    asks: bool
    sends: int
    on_the_loop: bool
    durability: str


shapes = st.builds(
    Shape,
    branches=st.lists(
        st.sampled_from(["say", "call", "edit", "remove", "box", "wipe", "delta", "again"]),
        min_size=1,
        max_size=3,
        unique=True,
    )
    # LangGraph itself refuses to remove in a step what another node has wiped in it.
    .filter(lambda kinds: not {"wipe", "remove"} <= set(kinds))
    .map(tuple),
    child=st.sampled_from(["none", "once", "kept"]),
    asks=st.booleans(),
    sends=st.integers(0, 2),
    on_the_loop=st.booleans(),
    durability=st.sampled_from(["sync", "async", "exit"]),
)

actions = st.lists(
    st.one_of(
        st.tuples(st.just("say"), any_text(max_size=8)),
        st.tuples(st.just("resume"), any_text(max_size=8)),
        st.tuples(st.just("update"), st.sampled_from(["messages", "log", "box", "remove"])),
        st.tuples(st.just("fork"), st.integers(0, 12)),
        st.tuples(st.just("fork update"), st.integers(0, 12)),
    ),
    min_size=1,
    max_size=5,
)


def _branch(kind: str) -> Any:
    def node(state: State) -> dict[str, Any]:
        said = state.get("messages", [])
        place = f"{kind}-{len(said)}-{len(state.get('log', []))}"
        fresh = AIMessage(f"said by {place}", id=place)
        given: dict[str, Any] = {"log": [place]}
        if kind == "say":
            given["messages"] = [fresh]
        elif kind == "call":
            calls = [{"name": "f", "args": {"p": place}, "id": place, "type": "tool_call"}]
            result = ToolMessage("found", tool_call_id=place, artifact={"a": [1, place]})
            given["messages"] = [AIMessage([], tool_calls=calls, id=place), result]
        elif kind == "edit" and said:
            given["messages"] = [HumanMessage(f"edited by {place}", id=said[len(said) // 2].id)]
        elif kind == "remove" and said:
            given["messages"] = [RemoveMessage(id=said[0].id), fresh]
        elif kind == "wipe" and len(said) > 4:
            given["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), fresh]
        elif kind == "again" and said:
            # The same words with no id of their own: stored once or twice, it must be two.
            given["messages"] = [HumanMessage(said[0].content), fresh]
        elif kind == "box":
            given["box"] = {"last": said[-1:], "all": {"said": (list(said), place)}}
        elif kind == "delta":
            given |= {"delta": [place, fresh], "often": [place]}
        return given

    return node


def _ask(state: State) -> dict[str, Any]:
    answer = interrupt({"about": state.get("messages", [])[-1:], "n": len(state.get("log", []))})
    return {"log": [("answered", answer)], "n": len(state.get("log", []))}


def _sent(state: Any) -> dict[str, Any]:
    return {"log": [("sent", state["number"])], "delta": [state["about"]]}


def _child(kind: str) -> Any:
    def think(state: Inner) -> dict[str, Any]:
        said = state.get("messages", [])
        count = len(state.get("inner", []))
        thought = AIMessage("a thought", id=f"thought-{len(said)}-{count}")
        return {"messages": [thought], "inner": [said[-1:]]}

    again = ("again", lambda state: {"inner": [len(state["inner"])]})
    inner = StateGraph(Inner).add_sequence([("think", think), again]).add_edge(START, "think")
    return inner.compile(checkpointer=True if kind == "kept" else None)


def build(shape: Shape, saver: Any) -> Any:
    """Compile the graph of a shape."""
    graph = StateGraph(State)
    last = [f"b{number}" for number in range(len(shape.branches))]
    for name, kind in zip(last, shape.branches, strict=True):
        graph.add_node(name, _branch(kind))
        graph.add_edge(START, name)
    if shape.child != "none":
        graph.add_node("child", _child(shape.child))
        graph.add_edge(last, "child")
        last = ["child"]
    if shape.asks:
        graph.add_node("ask", _ask)
        graph.add_edge(last, "ask")
        last = ["ask"]
    graph.add_node("join", lambda state: {"n": len(state.get("messages", []))})
    graph.add_edge(last, "join")
    if shape.sends:
        graph.add_node("sent", _sent)

        def spread(state: State) -> list[Send]:
            about = state.get("messages", [])[-1:]
            return [Send("sent", {"number": n, "about": about}) for n in range(shape.sends)]

        graph.add_conditional_edges("join", spread, ["sent"])
        graph.add_edge("sent", END)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # delta channels announce that they are young
        return graph.compile(checkpointer=saver)


def run(graph: Any, shape: Shape, given: Any, config: Any) -> None:
    if shape.on_the_loop:
        asyncio.run(graph.ainvoke(given, config, durability=shape.durability))
    else:
        graph.invoke(given, config, durability=shape.durability)


def act(graph: Any, shape: Shape, action: tuple[str, Any], number: int) -> None:
    """Do one thing with the graph; what cannot be done now is not done."""
    kind, detail = action
    config = thread(THREAD)
    said = {"messages": [HumanMessage(str(detail), id=f"h{number}"), HumanMessage("and?")]}
    if kind == "say":
        run(graph, shape, said, config)
        return
    history = list(graph.get_state_history(config))
    if not history:
        return
    if kind == "resume":
        if history[0].interrupts:
            run(graph, shape, Command(resume=detail), config)
    elif kind == "update":
        graph.update_state(config, _update(detail, history[0].values, number), as_node="join")
    else:
        chosen = history[detail % len(history)]
        if kind == "fork update":
            made = graph.update_state(chosen.config, {"log": [f"fork {number}"]}, as_node="join")
            run(graph, shape, said, made)
        else:
            run(graph, shape, said, chosen.config)


def _update(what: str, values: dict[str, Any], number: int) -> dict[str, Any]:
    held: list[BaseMessage] = values.get("messages", [])
    if what == "remove" and held:
        return {"messages": [RemoveMessage(id=str(held[-1].id))]}
    return {
        "messages": {"messages": [AIMessage("by hand", id=f"hand{number}")]},
        "box": {"box": held[:1]},
    }.get(what, {"log": [f"update {number}"]})
