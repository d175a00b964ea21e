"""Summaries between processes, threads and databases; and what survives them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from summary_worker import BUDGET, due, go, start

from langchain_tokenmem import TokenMemory, TokenMemoryChatHistory, TranscriptStore
from langchain_tokenmem.types import BackgroundSummaries

LEASE_S = 2.0
MOST_CALLS = 1_000


class Slow:
    """A summarizer that takes its time, and notes when it was asked."""

    def __init__(self, sleep_s: float = 0.0) -> None:
        self.sleep_s = sleep_s
        self.asked: list[float] = []

    def __call__(self, messages: list[BaseMessage]) -> str:
        self.asked.append(time.monotonic())
        time.sleep(self.sleep_s)
        return f"The user asks about the delivery, {len(messages)} messages long."


def memory_of(writer: Slow, **kwargs: float) -> TokenMemory:
    return TokenMemory(BUDGET, summarizer=writer, **kwargs)


def history(memory: TokenMemory, store: TranscriptStore) -> TokenMemoryChatHistory:
    return TokenMemoryChatHistory("s", memory=memory, store=store)


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
    worker = start(url, "s", sleep_s=60, lease_s=LEASE_S)
    go(worker)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "asked\n"
    asked_at = time.monotonic()
    worker.kill()
    worker.communicate(timeout=20)
    writer = Slow()
    with (
        TranscriptStore(url, shared=True) as store,
        memory_of(writer, background=BackgroundSummaries(timeout_s=LEASE_S)) as memory,
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
        assert len(writer.asked) == 1
        assert state["totals"]["summaries"] == 1
        assert [entry["model"] for entry in state["summary"]["entries"]] == ["Slow"]
        covered = state["summary"]["covered"]
        assert state["summary"]["covers_to"] == said[covered - 1].id
        view = history(memory, store).view()
        shown = [message.id for message in view.messages if message.type != "system"]
        assert shown == [*state["kept"], *(message.id for message in said[covered:])]
        assert store.lease("s", "anybody", 1), "the lease was not given back"
    waited = writer.asked[0] - asked_at
    print(f"\nkilled: refused {len(refused_at)} times, free after {waited:.2f} s of {LEASE_S} s")


def test_two_processes_with_a_summary_due_make_one_call(url, said):
    workers = [start(url, "s", sleep_s=1.2, lease_s=60) for _ in range(2)]
    for worker in workers:
        go(worker)
    ended = [(worker.communicate(timeout=60), worker.returncode) for worker in workers]
    lines = [out.split() for (out, _err), _code in ended]
    assert [code for _out, code in ended] == [0, 0], [err for (_out, err), _code in ended]
    assert sorted(lines) == [["asked", "done"], ["done"]]
    with TranscriptStore(url, shared=True) as store:
        assert store.messages("s") == said
        assert store.state("s").state["totals"]["summaries"] == 1


@pytest.fixture(params=["sqlite", "postgresql"])
def leased(request: pytest.FixtureRequest, url: str) -> Iterator[tuple[TranscriptStore, str]]:
    """A store, and a session of its own in it."""
    where = url if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    session = uuid.uuid4().hex
    with TranscriptStore(where, shared=True) as store:
        store.add(session, [HumanMessage("hi")])
        yield store, session


def test_a_lease_refuses_a_second_owner_until_it_is_given_back_or_expires(leased):
    store, session = leased
    assert store.lease(session, "first", 60)
    assert store.lease(session, "first", 60)
    assert not store.lease(session, "second", 60)
    store.release(session, "second")
    assert not store.lease(session, "second", 60)
    store.release(session, "first")
    assert store.lease(session, "second", 0.3)
    assert not store.lease(session, "first", 60)
    time.sleep(0.35)
    assert store.lease(session, "first", 60)
    assert not store.lease("no such session", "first", 60)


@pytest.mark.parametrize("is_expired", [False, True], ids=["new", "expired"])
def test_eight_threads_ask_for_a_lease_and_one_gets_it(leased, is_expired):
    store, session = leased
    for attempt in range(5):
        if is_expired:
            assert store.lease(session, f"killed {attempt}", 0.0)
        together = threading.Barrier(8)

        def ask(number: int, together: threading.Barrier = together) -> str | None:
            together.wait()
            owner = f"thread {number}"
            return owner if store.lease(session, owner, 60) else None

        with ThreadPoolExecutor(8) as pool:
            (owner,) = filter(None, pool.map(ask, range(8)))
        store.release(session, owner)
