"""Background jobs: one for each key, and whoever waits for one is never left waiting."""

from __future__ import annotations

import threading

from langchain_tokenmem.background import BackgroundRunner, wait_for


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
