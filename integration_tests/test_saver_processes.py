"""Several processes on one thread."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from processes import Fork
from tenacity import retry, retry_if_exception_type, wait_random_exponential

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ThreadConflictError

EACH = 20
THREAD = "shared"
WRITERS = 6


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


def turns(url: str, writer: str, count: int) -> None:
    """Take turns, again where another process was first, and print each."""
    again = retry(
        retry=retry_if_exception_type(ThreadConflictError),
        wait=wait_random_exponential(multiplier=0.05, max=2),
    )
    ask = again(turn)
    with TranscriptStore(url, shared=True) as store:
        graph = compiled(TokenMemorySaver(store, on_conflict="raise"))
        for number in range(count):
            ask(graph, f"{writer}-{number}")
            # Printed only after the turn returned: this is what "acknowledged" means.
            print(f"{writer}-{number}", flush=True)


def run(url: str, count: int) -> list[str]:
    """Run all writers to their end; return the turns that they have acknowledged."""
    writers = [Fork(turns, url, f"w{number}", count) for number in range(WRITERS)]
    said: list[str] = []
    for writer in writers:
        out, errors = writer.communicate(timeout=900)
        assert writer.returncode == 0, errors
        said += out.split()
    assert len(said) == len(set(said)) == WRITERS * count
    return said


def state_of(saver: BaseCheckpointSaver[Any]) -> list[str]:
    held = compiled(saver).get_state({"configurable": {"thread_id": THREAD}}).values
    return [message.id for message in held["messages"]]


def lost(acknowledged: list[str], ids: list[str]) -> int:
    there = set(ids)
    return sum(not {name, f"{name}-answer"} <= there for name in acknowledged)


def test_processes_take_turns_on_one_thread(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    acknowledged = run(url, EACH)
    with TranscriptStore(url, shared=True) as store:
        ids = state_of(TokenMemorySaver(store))
        transcript = [message.id for message in store.messages(THREAD)]
    assert lost(acknowledged, ids) == 0
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert len(ids) == 2 * len(acknowledged)
    for question, answer in zip(ids[::2], ids[1::2], strict=True):
        assert answer == f"{question}-answer"
    assert transcript == ids, "the transcript tells another story"
