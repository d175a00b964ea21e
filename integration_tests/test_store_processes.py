"""Several processes on one file, and processes that die in the middle of a write."""

from __future__ import annotations

import random
import time

import store_worker
from processes import Fork
from store_worker import finish, turn

from langchain_tokenmem import TranscriptStore


def check_one_session(url: str, writers: int, each: int) -> None:
    with TranscriptStore(url, shared=True) as store:
        rows = store.rows("s")
    assert [row.seq for row in rows] == list(range(1, writers * each + 1))
    for writer in range(writers):
        mine = [row.message.id for row in rows if str(row.message.id).startswith(f"w{writer}-")]
        assert mine == [f"w{writer}-{number}" for number in range(each)]


def test_eight_processes_write_two_hundred_messages_each_to_one_sqlite_file(tmp_path):
    url = f"sqlite:///{tmp_path}/memory.db"
    finish([Fork(store_worker.__file__, "singles", url, "s", f"w{n}", 200) for n in range(8)], 200)
    check_one_session(url, 8, 200)


def test_forty_kills_during_writes_lose_no_acknowledged_turn_and_leave_no_half(tmp_path):
    chosen = random.Random(11)
    url = f"sqlite:///{tmp_path}/memory.db"
    acknowledged: list[str] = []
    in_mid_write = 0
    for round_ in range(40):
        worker = Fork(store_worker.__file__, "turns", url, "s", f"w{round_}", 100_000)
        lines = [worker.stdout.readline().strip()]
        time.sleep(chosen.uniform(0, 0.03))
        worker.kill()
        rest, err = worker.communicate(timeout=60)
        assert lines[0], err
        # A line that was cut by the kill was printed by an `add` that had returned, all the same.
        lines += [line for line in rest.splitlines(keepends=False) if line]
        if rest and not rest.endswith("\n"):
            lines.pop()
        acknowledged += lines
        with TranscriptStore(url, shared=True) as store:
            last = store.last("s", 1)[-1]
        assert str(last.id).startswith(f"w{round_}-")
        assert str(last.id).endswith("-4"), "half a turn"
        in_mid_write += last.id != f"{lines[-1]}-4"
    assert len(acknowledged) >= 40
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
    print(
        f"\n40 kills: {len(acknowledged)} turns acknowledged, {len(stored)} stored "
        f"({in_mid_write} written but not acknowledged), 0 lost, 0 doubled, 0 half turns"
    )


def test_eight_processes_open_a_new_file_at_once(tmp_path):
    for attempt in range(3):
        url = f"sqlite:///{tmp_path}/memory{attempt}.db"
        finish(
            [Fork(store_worker.__file__, "singles", url, f"s{n}", f"w{n}", 2) for n in range(8)], 2
        )
        with TranscriptStore(url, shared=True) as store:
            assert store.sessions() == [f"s{n}" for n in range(8)]
            assert [store.count(f"s{n}") for n in range(8)] == [2] * 8
