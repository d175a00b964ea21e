"""Background jobs: one for each key, and whoever waits for one is never left waiting."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from langchain_tokenmem.background import BackgroundRunner, CircuitBreaker, ForkSafeLock, wait_for
from langchain_tokenmem.tokens import encodings
from tests.fakes import printed_by


def test_jobs_over_the_most_wait_for_their_turn_and_one_that_is_given_up_makes_room():
    runner, may_end, started = BackgroundRunner("test", 2), threading.Event(), []

    def work(name: str) -> None:
        started.append(name)
        may_end.wait(10)

    futures = [runner.start(name, partial(work, name)) for name in "abcd"]
    assert runner.start("c", partial(work, "c")) is futures[2]
    third = runner.job("c")
    assert third.started is None
    assert runner.give_up_overdue("d", 60) == 0
    assert runner.give_up_overdue("d", 0) == 2
    assert third.started is not None
    assert len(runner.jobs()) == 2
    may_end.set()
    assert all(wait_for(future, 10) for future in futures)
    assert sorted(started) == list("abcd")
    assert runner.jobs() == []


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


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


@contextmanager
def held_by_a_thread(lock: ForkSafeLock) -> Iterator[None]:
    is_held, may_end = threading.Event(), threading.Event()

    def run() -> None:
        with lock:
            is_held.set()
            may_end.wait(30)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run)
        assert is_held.wait(10)
        yield
        may_end.set()


@forks
def test_a_vocabulary_that_the_parent_is_loading_does_not_block_the_child():
    with held_by_a_thread(encodings._loading):
        assert succeeds_in_child(lambda: encodings.find_encoding("o200k_base"))


@forks
def test_a_job_of_the_parent_is_given_up_in_the_child_and_goes_on_in_the_parent():
    runner, may_end = BackgroundRunner("test"), threading.Event()
    future = runner.start("k", lambda: may_end.wait(30))

    def work_in_child() -> None:
        assert runner.jobs() == []
        assert runner.job("k") is None
        assert wait_for(runner.start("k", lambda: None), 5)

    with held_by_a_thread(runner._lock):
        assert succeeds_in_child(work_in_child)
    assert runner.job("k") is not None
    may_end.set()
    assert wait_for(future, 10)


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
    assert printed_by(AT_EXIT).split() == ["ended"]


@pytest.mark.parametrize("ends", ["failed", "succeeded"])
def test_the_end_of_a_job_that_was_given_up_counts_for_nothing(ends):
    breaker = CircuitBreaker(2, 60.0, lambda: 0.0)
    is_started, may_end = threading.Event(), threading.Event()

    def late():
        is_started.set()
        may_end.wait(10)
        getattr(breaker, ends)()

    runner = BackgroundRunner("test")
    future = runner.start("k", late, given_up=breaker.failed)
    thread = runner.job("k").thread
    assert is_started.wait(10)
    assert runner.give_up_overdue("k", 0) == 1
    may_end.set()
    thread.join(10)
    assert wait_for(future, 10)
    assert not breaker.is_open
    breaker.failed()
    assert breaker.is_open, "the job that was given up has failed once"
