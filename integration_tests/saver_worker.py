"""Processes that write checkpoints; tests start many of them, and kill some.

Run: python saver_worker.py turns|stock-turns|puts URL WRITER COUNT
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from savers import at, put
from tenacity import retry, retry_if_exception_type, wait_random_exponential

import langchain_tokenmem
from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ThreadConflictError

THREAD = "shared"


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def reply(state: State) -> dict[str, Any]:
    asked = state["messages"][-1]
    return {"messages": [AIMessage(f"answer to {asked.id}", id=f"{asked.id}-answer")]}


def compiled(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return the smallest chat there is: one node that answers."""
    graph = StateGraph(State)
    graph.add_node("reply", reply)
    graph.add_edge(START, "reply")
    return graph.compile(checkpointer=saver)


def turn(graph: Any, name: str) -> None:
    """Ask once more; written when it ends, so that it is there as a whole or not at all."""
    said = {"messages": [HumanMessage(f"question {name}", id=name)]}
    graph.invoke(said, {"configurable": {"thread_id": THREAD}}, durability="exit")


def turns(saver: BaseCheckpointSaver[Any], writer: str, count: int) -> None:
    """Take turns, again where another process was first."""
    graph = compiled(saver)
    again = retry(
        retry=retry_if_exception_type((ThreadConflictError, sqlite3.OperationalError)),
        wait=wait_random_exponential(multiplier=0.01, max=0.3),
    )
    ask = again(turn)
    for number in range(count):
        ask(graph, f"{writer}-{number}")
        # Printed only after the turn returned: this is what "acknowledged" means.
        print(f"{writer}-{number}", flush=True)


def puts(saver: BaseCheckpointSaver[Any], writer: str, count: int) -> None:
    """Put a chain of checkpoints with writes, on a thread of one's own."""
    parent, said = at(writer), []
    for number in range(count):
        said.append(HumanMessage(f"{writer} says {number}", id=f"{writer}-{number}"))
        values = {"messages": list(said), "n": number}
        versions = dict.fromkeys(values, f"{number + 1:032}.5")
        parent = put(saver, parent, values, versions, step=number)
        saver.put_writes(parent, [("n", number), ("log", writer)], f"task{number}", "path")
        print(f"{writer}-{number}", flush=True)


def start(kind: str, url: str, writer: str, count: int) -> subprocess.Popen[str]:
    """Start a worker on the same package that this process uses, installed or not."""
    package = Path(langchain_tokenmem.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, __file__, kind, url, writer, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )


def main() -> None:
    kind, url, writer, count = sys.argv[1:]
    if kind == "stock-turns":
        from langgraph.checkpoint.sqlite import SqliteSaver

        # The longest patience that the stock saver can be given: errors would hide the losses.
        connection = sqlite3.connect(url, check_same_thread=False, timeout=60)
        turns(SqliteSaver(connection), writer, int(count))
        return
    with TranscriptStore(url) as store:
        saver = TokenMemorySaver(store, on_conflict="raise")
        {"turns": turns, "puts": puts}[kind](saver, writer, int(count))


if __name__ == "__main__":
    main()
