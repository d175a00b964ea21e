"""Background jobs: one for each key, and whoever waits for one is never left waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.background import BackgroundRunner, ForkSafeLock, in_own_thread, wait_for
from langchain_tokenmem.tokens import encodings
from langchain_tokenmem.turns.conversation import TurnRequest
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.turn import take_turn
from tests.fakes import CharCounter
from tests.summarize.models import Gate


class PanicError(BaseException):
    """What a library written in Rust raises when it panics: no Exception."""


def test_a_job_that_panics_ends_for_who_waits_and_the_next_one_runs(monkeypatch):
    raised, may_panic = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda told: raised.append(told.exc_type))

    def panics():
        may_panic.wait(10)
        raise PanicError

    runner, done = BackgroundRunner("test"), []
    future = runner.start("k", panics)
    job = runner.job("k")
    may_panic.set()
    assert wait_for(future, 10)
    job.thread.join(10)
    assert raised == [PanicError]
    assert wait_for(runner.start("k", lambda: done.append(1)), 10)
    assert done == [1]


def test_a_job_that_is_given_up_leaves_its_successor_alone():
    runner = BackgroundRunner("test")
    first_may_end, second_may_end = threading.Event(), threading.Event()
    first = runner.start("k", lambda: first_may_end.wait(10))
    given_up = runner.job("k")
    assert given_up is not None
    runner.give_up("k", given_up)
    second = runner.start("k", lambda: second_may_end.wait(10))
    runner.give_up("k", given_up)  # again, by another caller: it is not the one that runs now
    first_may_end.set()
    assert wait_for(first, 10)
    assert not second.done()
    assert runner.start("k", lambda: None) is second
    second_may_end.set()
    assert wait_for(second, 10)


def test_jobs_over_the_most_wait_for_their_turn_and_one_that_is_given_up_makes_room():
    runner, may_end, started = BackgroundRunner("test", 2), threading.Event(), []

    def work(name: str) -> None:
        started.append(name)
        may_end.wait(10)

    futures = [runner.start(name, partial(work, name)) for name in "abcd"]
    assert runner.start("c", partial(work, "c")) is futures[2]
    first, third = runner.job("a"), runner.job("c")
    assert first is not None
    assert third is not None
    assert third.started is None
    assert runner.give_up_overdue("d", 60) == 0
    runner.give_up("a", first)
    assert third.started is not None
    assert len(runner.jobs()) == 3
    may_end.set()
    assert all(wait_for(future, 10) for future in futures)
    assert sorted(started) == list("abcd")
    assert runner.jobs() == []


def forks(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that forks."""
    no_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    warns = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    return no_fork(warns(test))


def succeeds_in_child(work: Callable[[], object]) -> bool:
    """Return whether some work ends well, within ten seconds, in the child of a fork."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            work()
        except BaseException:  # noqa: BLE001  # the child must not go on with the tests
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def hold(lock: ForkSafeLock) -> tuple[threading.Thread, threading.Event]:
    """Hold a lock in a thread until the event is set."""
    is_held, may_end = threading.Event(), threading.Event()

    def run() -> None:
        with lock:
            is_held.set()
            may_end.wait(30)

    thread = threading.Thread(target=run)
    thread.start()
    assert is_held.wait(10)
    return thread, may_end


@forks
def test_a_vocabulary_that_the_parent_is_loading_does_not_block_the_child():
    thread, may_end = hold(encodings._loading)
    assert succeeds_in_child(lambda: encodings.find_encoding("o200k_base"))
    may_end.set()
    thread.join()


@forks
def test_a_lock_that_the_forking_thread_holds_is_let_go_in_both():
    lock = ForkSafeLock()
    child = -1
    with lock:
        child = os.fork()
    if child == 0:
        signal.alarm(10)
        with lock:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with lock:
        pass


@forks
def test_a_job_of_the_parent_is_given_up_in_the_child_and_goes_on_in_the_parent():
    runner, may_end = BackgroundRunner("test"), threading.Event()
    future = runner.start("k", lambda: may_end.wait(30))
    thread, may_let_go = hold(runner._lock)

    def work_in_child() -> None:
        assert runner.jobs() == []
        assert runner.job("k") is None
        assert wait_for(runner.start("k", lambda: None), 5)

    assert succeeds_in_child(work_in_child)
    may_let_go.set()
    thread.join()
    assert runner.job("k") is not None
    may_end.set()
    assert wait_for(future, 10)


@forks
def test_a_job_that_waits_in_the_parent_keeps_no_place_in_the_child():
    runner, may_end = BackgroundRunner("test", 1), threading.Event()
    runner.start("a", lambda: may_end.wait(30))
    waiting = runner.start("b", lambda: None)

    def work_in_child() -> None:
        assert wait_for(runner.start("b", lambda: None), 5)
        assert asyncio.run(in_own_thread(len, "abc")) == 3

    assert asyncio.run(in_own_thread(len, "ab")) == 2  # its threads stay behind in the parent
    assert succeeds_in_child(work_in_child)
    assert not waiting.done()
    may_end.set()
    assert wait_for(waiting, 10)


@pytest.mark.slow
@forks
def test_a_summary_that_the_parent_is_making_is_made_anew_in_the_child():
    gate = Gate()
    memory = TokenMemory(TokenBudget(4_000), counter=CharCounter(), summarizer=gate.model)
    said = []
    for number in range(60):
        said.append(HumanMessage(f"question {number} " * 8, id=f"h{number}"))
        said.append(AIMessage(f"reply {number} " * 12, id=f"a{number}"))
    thread = GraphThread(memory, said, None, key=("t", "", "memory"))
    assert memory.plan(said).fold
    assert memory.plan(said).before < memory.budget.limit
    take_turn(thread, TurnRequest())
    assert gate.asked.wait(10)

    def work_in_child() -> None:
        gate.open.set()
        take_turn(thread, TurnRequest())
        memory.close()
        assert take_turn(thread, TurnRequest()).state["summary"]

    assert succeeds_in_child(work_in_child)
    gate.open.set()
    memory.close()


AT_EXIT = """
from langchain_tokenmem.background import wait_at_exit
class Owner:
    def end(self): print("ended")
kept, dropped = Owner(), Owner()
wait_at_exit(kept.end)
wait_at_exit(dropped.end)
del dropped
"""


def test_what_waits_at_exit_is_called_once_for_each_object_that_lives():
    """Also where no library has made a finalizer before, which would then be the first to run."""
    done = subprocess.run(  # noqa: S603  our own interpreter and text
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ended"]
