"""Runs of a sub-graph at once, and while their thread is thinned out or deleted, on PostgreSQL."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.storage import threads as retention
from langchain_tokenmem.storage.thread_messages import MessageWriter
from tests.adapters.integrations import at, put

SECONDS = 0.5
"""How long the one that came second has for overtaking."""

# Bytes are not for a transcript, so it is a row that retention may take.
RESULT = ToolMessage("a page", tool_call_id="c1", id="m2", artifact=b"%PDF")


class Thread:
    """A thread whose sub-graph ran once; its first checkpoint is not the newest one."""

    def __init__(self, url: str) -> None:
        self.name = str(uuid4())
        self.one, self.other = (
            TokenMemorySaver(TranscriptStore(url, shared=True)) for _ in range(2)
        )
        self.put(self.one, "1", [HumanMessage("Hello", id="m1")])
        self.put(self.one, "2", [RESULT], "child:1", root="1")
        self.put(self.one, "3", [HumanMessage("Hello", id="m1")], parent="1")

    def put(self, saver, name, said, ns="", *, root=None, parent=None):
        parents = {"": root} if root else {}
        put(saver, at(self.name, parent, ns), name, {"messages": said}, parents=parents)

    def run_again(self) -> None:
        self.put(self.other, "4", [RESULT], "child:2", root="3")

    def read(self):
        return self.other.get_tuple(at(self.name, "4", "child:2"))


@pytest.fixture
def thread(postgres_url):
    made = Thread(postgres_url)
    yield made
    made.one.store.close()
    made.other.store.close()


def held_at(monkeypatch, owner, name, second: Callable[[], None]) -> list[threading.Thread]:
    """Have `second` begin, and time to end, in the middle of what comes first."""
    plain, begun = getattr(owner, name), []

    def held(*args, **kwargs):
        if not begun:
            begun.append(threading.Thread(target=second))
            begun[0].start()
            begun[0].join(SECONDS)
        return plain(*args, **kwargs)

    monkeypatch.setattr(owner, name, held)
    return begun


@pytest.mark.parametrize("is_first", [True, False])
def test_retention_takes_nothing_from_a_new_run(thread, monkeypatch, is_first):
    def prune() -> None:
        thread.one.prune([thread.name], keep_last=1)

    if is_first:
        begun = held_at(monkeypatch, retention, "_delete_unused", thread.run_again)
        prune()
    else:
        begun = held_at(monkeypatch, MessageWriter, "store", prune)
        thread.run_again()
    begun[0].join()
    assert thread.read().checkpoint["channel_values"]["messages"] == [RESULT]


def test_deletion_leaves_no_half_of_a_new_run(thread, monkeypatch):
    delete = lambda: thread.one.delete_thread(thread.name)  # noqa: E731
    begun = held_at(monkeypatch, MessageWriter, "store", delete)
    thread.run_again()
    begun[0].join()
    assert thread.read() is None
    thread.run_again()
    assert thread.read().checkpoint["channel_values"]["messages"] == [RESULT]


@pytest.mark.parametrize("whose", ["session_id", "user_id"])
def test_erasing_a_thread_and_a_step_of_it_never_wait_for_one_another(thread, monkeypatch, whose):
    thread.one.store.add(thread.name, [HumanMessage("Hi", id="m0")], user_id=thread.name)
    erased: list[dict[str, int]] = []

    def erase() -> None:
        erased.append(thread.one.store.erase(**{whose: thread.name}))

    begun = held_at(monkeypatch, MessageWriter, "store", erase)
    said = [HumanMessage("Hello", id="m1"), HumanMessage("More.", id="m3")]
    thread.put(thread.other, "4", said, parent="3")
    begun[0].join()
    assert erased[0]["checkpoints"] == 4
    assert thread.other.get_tuple(at(thread.name)) is None
    assert thread.one.store.messages(thread.name) == []


def test_runs_of_one_sub_graph_never_wait_for_one_another(thread):
    def run(number: int) -> None:
        saver = (thread.one, thread.other)[number % 2]
        for turn in range(4):
            ns, said = f"child:{number}-{turn}", []
            for step in range(3):
                name = f"{number}-{turn}-{step}"
                page = RESULT.model_copy(update={"id": f"page {name}"})
                said = [*said, HumanMessage("More.", id=f"more {name}"), page]
                parent = str(step - 1) if step else None
                thread.put(saver, str(step), said, ns, root="3", parent=parent)
            found = saver.get_tuple(at(thread.name, ns=ns))
            assert found.checkpoint["channel_values"]["messages"] == said

    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(run, range(6))] == [None] * 6  # map() re-raises their errors


def test_writers_of_a_new_thread_do_not_lock_each_other_out(postgres_url):
    """The first turn of a graph stores a checkpoint and pending writes at once."""
    with TranscriptStore(postgres_url, shared=True) as store, ThreadPoolExecutor(6) as pool:
        saver = TokenMemorySaver(store)
        for _ in range(15):
            thread, begin = str(uuid4()), threading.Barrier(6)

            def turn(number, thread=thread, begin=begin):
                begin.wait()
                for step in range(3):
                    name = f"{number}-{step}"
                    saver.put_writes(at(thread, name), [("messages", [RESULT])], "task")
                    said = [RESULT, HumanMessage("Hello", id=name)]
                    put(saver, at(thread), name, {"messages": said})

            for job in [pool.submit(turn, number) for number in range(6)]:
                job.result()  # raises what the writer raised
            assert len(list(saver.list(at(thread)))) == 18
