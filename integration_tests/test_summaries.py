"""Summaries between processes; and what survives them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from processes import finished, start

from langchain_tokenmem import TokenBudget, TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.types import BackgroundSummaries

LEASE_S = 2.0
MOST_CALLS = 1_000
BUDGET = TokenBudget(context_window=4_000)


def due(memory: TokenMemory) -> list[BaseMessage]:
    """Return turns between `summarize_at` and the hard limit."""
    said: list[BaseMessage] = []
    while memory.count(said).tokens <= memory.budget.summarize_tokens:
        n = len(said) // 2
        said += [
            HumanMessage(f"question {n} about the delivery " * 8, id=f"h{n}"),
            AIMessage(f"reply {n} on the delivery " * 10, id=f"a{n}"),
        ]
    assert memory.count(said).tokens < memory.budget.limit
    return said


class Slow:
    """A summarizer that takes its time, and counts how often it was asked."""

    def __init__(self, sleep_s: float = 0.0) -> None:
        self.sleep_s = sleep_s
        self.asked = 0

    def __call__(self, messages: list[BaseMessage]) -> str:
        self.asked += 1
        print("asked", flush=True)
        time.sleep(self.sleep_s)
        return f"The user asks about the delivery, {len(messages)} messages long."


def memory_of(writer: Slow, lease_s: float = 60) -> TokenMemory:
    background = BackgroundSummaries(timeout_s=lease_s)
    return TokenMemory(BUDGET, summarizer=writer, background=background)


def history(memory: TokenMemory, store: TranscriptStore) -> TokenMemoryChatHistory:
    return TokenMemoryChatHistory("s", memory=memory, store=store)


def take_views(url: str, sleep_s: float, lease_s: float) -> None:
    """Print `ready`, wait for a line, take ten turns' views 0.1 s apart, and print `done`."""
    with (
        TranscriptStore(url, shared=True) as store,
        memory_of(Slow(sleep_s), lease_s) as memory,
    ):
        memory.count([HumanMessage("loads the vocabulary")])
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(10):
            assert history(memory, store).view().left_out == 0
            time.sleep(0.1)
    print("done", flush=True)


def ready(url: str, sleep_s: float, lease_s: float) -> subprocess.Popen[str]:
    """Start a process that takes views after a signal."""
    worker = start(take_views, url, sleep_s, lease_s)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    return worker


def go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.fixture
def said(url: str) -> list[BaseMessage]:
    """What the session holds: a summary is due, and the hard limit is not reached."""
    messages = due(memory_of(Slow()))
    with TranscriptStore(url, shared=True) as store:
        store.add("s", messages)
    return messages


def test_a_process_killed_during_a_summary_leaves_the_next_one_free_within_the_lease(url, said):
    worker = ready(url, 60, LEASE_S)
    go(worker)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "asked\n"
    asked_at = time.monotonic()
    worker.kill()
    worker.communicate(timeout=20)
    writer = Slow()
    with (
        TranscriptStore(url, shared=True) as store,
        memory_of(writer, LEASE_S) as memory,
    ):
        assert not store.lease("s", "anybody", LEASE_S)
        refused_at = []
        while not writer.asked and len(refused_at) < MOST_CALLS:
            began = time.monotonic()
            view = history(memory, store).view()
            assert view.left_out == 0
            memory.background_summaries.wait()
            if not writer.asked:
                refused_at.append(began)
            time.sleep(0.05)
        assert refused_at
        assert max(refused_at) <= asked_at + LEASE_S, "refused after the lease had ended"
        assert store.messages("s") == said
        state = store.state("s").state
        assert writer.asked == 1
        assert state["totals"]["summaries"] == 1
        assert [entry["model"] for entry in state["summary"]["entries"]] == ["Slow"]
        covered = state["summary"]["covered"]
        assert state["summary"]["covers_to"] == said[covered - 1].id
        view = history(memory, store).view()
        shown = [message.id for message in view.messages if message.type != "system"]
        assert shown == [*state["kept"], *(message.id for message in said[covered:])]
        assert store.lease("s", "anybody", 1), "the lease was not given back"


def test_two_processes_with_a_summary_due_make_one_call(url, said):
    workers = [ready(url, 1.2, 60) for _ in range(2)]
    for worker in workers:
        go(worker)
    assert sorted(finished(workers)) == [["asked", "done"], ["done"]]
    with TranscriptStore(url, shared=True) as store:
        assert store.messages("s") == said
        assert store.state("s").state["totals"]["summaries"] == 1
