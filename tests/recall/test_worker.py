"""One thread behind the turn: asked often, at work once, one warning for one trouble."""

from __future__ import annotations

import logging
import threading

from langchain_tokenmem.errors import RecallError
from langchain_tokenmem.recall.worker import Worker


def test_work_that_was_asked_for_meanwhile_is_done_once_more_and_never_at_the_same_time():
    begun, may_end, running, most = threading.Event(), threading.Event(), [0], [0, 0]

    def work():
        running[0] += 1
        most[0] = max(most[0], running[0])
        most[1] += 1
        begun.set()
        may_end.wait(10)
        running[0] -= 1

    worker = Worker(work, "test")
    worker.wake()
    assert begun.wait(10)
    for _ in range(50):
        worker.wake()
    may_end.set()
    assert worker.wait(10)
    assert most == [1, 2]


def test_a_failure_is_said_once_until_it_has_worked_again(caplog):
    faults = [RecallError("away"), RecallError("away"), None, RecallError("away again")]

    def work():
        fault = faults.pop(0)
        if fault is not None:
            raise fault

    worker = Worker(work, "test")
    with caplog.at_level(logging.WARNING):
        while faults:
            worker.wake()
            assert worker.wait(10)
    assert [record.getMessage() for record in caplog.records] == ["away", "away again"]


def test_a_fault_of_our_own_is_logged_and_the_next_work_is_done(caplog):
    done = []

    def work():
        if not done:
            done.append(1)
            raise ZeroDivisionError("a bug")
        done.append(2)

    worker = Worker(work, "test")
    worker.wake()
    worker.wait(10)
    worker.wake()
    worker.wait(10)
    assert done == [1, 2]
    assert "a bug" in caplog.text
