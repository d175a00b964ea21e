"""Keys of LangGraph that are private, for what it has no public way to: a change is noticed here.

There is no public way to read another channel of the run that a node or a tool is in
(`state_in_run`, `has_channel`), nor to run one node again for an explanation.
"""

import re
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

import langchain_tokenmem
from langchain_tokenmem.adapters.run_context import Run, has_channel, state_in_run

KEYS = {"__pregel_read", "__pregel_checkpointer", "__pregel_runtime"}


class Input(TypedDict):
    messages: list[Any]


class State(Input):
    hidden: str


def test_a_node_is_handed_the_keys_and_by_them_the_channels_of_its_run():
    saver, seen = InMemorySaver(), {}

    def hide(_: Input) -> dict[str, Any]:
        return {"hidden": "value"}

    def look(_: Input) -> dict[str, Any]:  # its own input has no channel "hidden"
        seen["keys"] = get_config()["configurable"].keys() & KEYS
        seen["hidden"] = state_in_run("hidden")
        seen["other"] = state_in_run("no_such_channel")
        seen["channels"] = [has_channel("hidden"), has_channel("no_such_channel")]
        seen["saver"] = Run.of().saver
        return {}

    builder = StateGraph(State)
    builder.add_node("hide", hide, input_schema=Input)
    builder.add_node("look", look, input_schema=Input)
    builder.add_edge(START, "hide")
    builder.add_edge("hide", "look")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("Hi.")]}, {"configurable": {"thread_id": "t1"}})
    assert seen.pop("saver") is saver
    assert seen == {"keys": KEYS, "hidden": "value", "other": None, "channels": [True, False]}, (
        "LangGraph has changed a private key: see the docstring of this file"
    )


def test_no_other_private_key_is_used():
    package = Path(langchain_tokenmem.__file__).parent
    text = "".join(file.read_text("utf-8") for file in package.rglob("*.py"))
    assert set(re.findall(r'"(__pregel\w+)"', text)) == KEYS
    assert not re.search(r"(?:from|import) langgraph\S*\._", text)
