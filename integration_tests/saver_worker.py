"""One of eight processes that write checkpoints to one database.

Run: python saver_worker.py URL WRITER COUNT. It prints each turn that it has acknowledged.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from processes import Fork
from tenacity import retry, retry_if_exception_type, wait_random_exponential

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ThreadConflictError

THREAD = "shared"
WRITERS = 8


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
        retry=retry_if_exception_type(ThreadConflictError),
        wait=wait_random_exponential(multiplier=0.05, max=2),
    )
    ask = again(turn)
    for number in range(count):
        ask(graph, f"{writer}-{number}")
        # Printed only after the turn returned: this is what "acknowledged" means.
        print(f"{writer}-{number}", flush=True)


def run(url: str, count: int) -> list[str]:
    """Run all writers to their end; return the turns that they have acknowledged."""
    writers = [Fork(__file__, url, f"w{number}", count) for number in range(WRITERS)]
    said: list[str] = []
    for writer in writers:
        out, errors = writer.communicate(timeout=900)
        assert writer.returncode == 0, errors
        said += out.split()
    assert len(said) == len(set(said)) == WRITERS * count
    return said


def main() -> None:
    url, writer, count = sys.argv[1:]
    with TranscriptStore(url, shared=True) as store:
        turns(TokenMemorySaver(store, on_conflict="raise"), writer, int(count))


if __name__ == "__main__":
    main()
