"""Several processes on one file, also killed in the middle of a write, and on one thread."""

import random
import time
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from processes import Fork, finished
from stored_turns import turn
from tenacity import retry, retry_if_exception_type, wait_random_exponential

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ThreadConflictError
from tests.contract.chats import in_thread

EACH = 20
WRITERS = 6


def add(url: str, writer: str) -> None:
    """Add messages, and print each."""
    with TranscriptStore(url, shared=True) as store:
        for number in range(EACH):
            store.add("s", [HumanMessage("Hello.", id=f"{writer}-{number}")])
            print(f"{writer}-{number}", flush=True)


def test_processes_open_a_new_file_at_once_and_write_to_it(tmp_path: Path) -> None:
    for attempt in range(3):
        url = f"sqlite:///{tmp_path}/memory{attempt}.db"
        said = finished([Fork(add, url, f"w{number}") for number in range(8)])
        with TranscriptStore(url, shared=True) as store:
            rows = store.rows("s")
        assert [row.seq for row in rows] == [*range(1, 8 * EACH + 1)]
        ids = [str(row.message.id) for row in rows]
        for number, added in enumerate(said):
            assert [name for name in ids if name.startswith(f"w{number}-")] == added
            assert len(added) == EACH


def write(url: str, writer: str) -> None:
    """Add turns until it is killed, and print each."""
    with TranscriptStore(url, shared=True) as store:
        for number in range(100_000):
            store.add("s", turn(writer, number))
            # Printed only after `add` returned: this is what "acknowledged" means.
            print(f"{writer}-{number}", flush=True)


def test_kills_during_writes_lose_no_acknowledged_turn_and_leave_no_half(tmp_path: Path) -> None:
    chosen = random.Random(11)
    url = f"sqlite:///{tmp_path}/memory.db"
    acknowledged: list[str] = []
    in_mid_write = 0
    for round_ in range(15):
        worker = Fork(write, url, f"w{round_}")
        first = worker.stdout.readline()
        time.sleep(chosen.uniform(0, 0.03))
        lines = worker.killed(first)
        acknowledged += lines
        with TranscriptStore(url, shared=True) as store:
            last = store.last("s", 1)[-1]
        assert str(last.id).startswith(f"w{round_}-")
        assert str(last.id).endswith("-4"), "half a turn"
        in_mid_write += last.id != f"{lines[-1]}-4"
    assert len(acknowledged) >= 15
    with TranscriptStore(url, shared=True) as store:
        rows = store.rows("s")
    ids = [str(row.message.id) for row in rows]
    assert len(ids) == len(set(ids)), "doubled"
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    stored = [name.rsplit("-", 1)[0] for name in ids[::5]]
    assert set(acknowledged) <= set(stored), "lost"
    order = [tuple(map(int, name[1:].split("-"))) for name in stored]
    assert order == sorted(order)
    assert len(stored) - len(acknowledged) == in_mid_write
    for name, place in zip(stored, range(0, len(rows), 5), strict=True):
        writer, number = name.split("-")
        assert [row.message for row in rows[place : place + 5]] == turn(writer, int(number))


def reply(state: MessagesState) -> dict[str, Any]:
    asked = state["messages"][-1]
    return {"messages": [AIMessage(f"answer to {asked.id}", id=f"{asked.id}-answer")]}


def chat_on(store: TranscriptStore) -> Any:
    """Return the smallest chat: one node that answers."""
    builder = StateGraph(MessagesState).add_node("reply", reply).add_edge(START, "reply")
    return builder.compile(checkpointer=TokenMemorySaver(store, on_conflict="raise"))


@retry(
    retry=retry_if_exception_type(ThreadConflictError),
    wait=wait_random_exponential(multiplier=0.05, max=2),
)
def ask(graph: Any, name: str) -> None:
    """Ask once more; written when it ends, so that it is there as a whole or not at all."""
    said = {"messages": [HumanMessage(f"question {name}", id=name)]}
    graph.invoke(said, in_thread(), durability="exit")


def turns(url: str, writer: str) -> None:
    """Take turns, again where another process was first, and print each."""
    with TranscriptStore(url, shared=True) as store:
        graph = chat_on(store)
        for number in range(EACH):
            ask(graph, f"{writer}-{number}")
            # Printed only after the turn returned: this is what "acknowledged" means.
            print(f"{writer}-{number}", flush=True)


def test_processes_take_turns_on_one_thread(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    said = finished([Fork(turns, url, f"w{number}") for number in range(WRITERS)])
    acknowledged = sorted(name for one in said for name in one)
    assert len(acknowledged) == WRITERS * EACH
    with TranscriptStore(url, shared=True) as store:
        held = chat_on(store).get_state(in_thread()).values["messages"]
        ids = [message.id for message in held]
        assert [message.id for message in store.messages("t1")] == ids
    assert sorted(ids[::2]) == acknowledged, "no turn is lost, none is there twice"
    assert ids[1::2] == [f"{name}-answer" for name in ids[::2]]
