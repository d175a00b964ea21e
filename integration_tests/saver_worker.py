"""Eight processes that write checkpoints to one database.

Run: python saver_worker.py URL COUNT FOLDER. The process has no threads and forks the writers,
because starting an interpreter for each would take most of the time. Each writer lists what it has
acknowledged in a file with its name in FOLDER.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from tenacity import retry, retry_if_exception_type, wait_random_exponential

import langchain_tokenmem
from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ThreadConflictError

THREAD = "shared"
WRITERS = 8

Say = Callable[[str], None]


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


def turns(saver: BaseCheckpointSaver[Any], writer: str, count: int, say: Say) -> None:
    """Take turns, again where another process was first."""
    graph = compiled(saver)
    again = retry(
        retry=retry_if_exception_type(ThreadConflictError),
        wait=wait_random_exponential(multiplier=0.05, max=2),
    )
    ask = again(turn)
    for number in range(count):
        ask(graph, f"{writer}-{number}")
        # Said only after the turn returned: this is what "acknowledged" means.
        say(f"{writer}-{number}")


def work(url: str, writer: str, count: int, folder: Path) -> None:
    """Be one of the writers."""
    with (folder / writer).open("w") as file:

        def say(line: str) -> None:
            file.write(line + "\n")
            file.flush()

        with TranscriptStore(url, shared=True) as store:
            saver = TokenMemorySaver(store, on_conflict="raise")
            turns(saver, writer, count, say)


def run(url: str, count: int, folder: Path) -> list[str]:
    """Run all writers to their end, on the package that this process uses; return their lines."""
    package = Path(langchain_tokenmem.__file__).parents[1]
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, __file__, url, str(count), str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
        start_new_session=True,
    )
    try:
        _, err = parent.communicate(timeout=900)
    except BaseException:
        os.killpg(parent.pid, signal.SIGKILL)  # the writers are in its group
        raise
    assert parent.returncode == 0, err
    said = [line for file in sorted(folder.iterdir()) for line in file.read_text().split()]
    assert len(said) == len(set(said)) == WRITERS * count
    return said


def main() -> None:
    url, count, folder = sys.argv[1:]
    fork = multiprocessing.get_context("fork")
    given = [(url, f"w{number}", int(count), Path(folder)) for number in range(WRITERS)]
    writers = [fork.Process(target=work, args=one) for one in given]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    sys.exit(any(writer.exitcode for writer in writers))


if __name__ == "__main__":
    main()
