"""Several processes on one file, and processes that die in the middle of a write."""

import random
import time
from collections.abc import Callable

from langchain_core.messages import BaseMessage, HumanMessage
from processes import Fork, finished
from stored_turns import turn

from langchain_tokenmem import TranscriptStore


def single(writer: str, number: int) -> list[BaseMessage]:
    return [HumanMessage(f"{writer} {number}", id=f"{writer}-{number}")]


def write(
    what: Callable[[str, int], list[BaseMessage]], url: str, session: str, writer: str, count: int
) -> None:
    """Add so many turns or single messages, and print each."""
    with TranscriptStore(url, shared=True) as store:
        for number in range(count):
            store.add(session, what(writer, number))
            # Printed only after `add` returned: this is what "acknowledged" means.
            print(f"{writer}-{number}", flush=True)


def test_eight_processes_open_a_new_sqlite_file_at_once_and_write_to_it(tmp_path):
    for attempt in range(3):
        url = f"sqlite:///{tmp_path}/memory{attempt}.db"
        said = finished([Fork(write, single, url, "s", f"w{n}", 20) for n in range(8)])
        assert [len(one) for one in said] == [20] * 8
        with TranscriptStore(url, shared=True) as store:
            rows = store.rows("s")
        assert [row.seq for row in rows] == [*range(1, 8 * 20 + 1)]
        for number, acknowledged in enumerate(said):
            ids = [str(row.message.id) for row in rows]
            assert [name for name in ids if name.startswith(f"w{number}-")] == acknowledged


def test_kills_during_writes_lose_no_acknowledged_turn_and_leave_no_half(tmp_path):
    chosen = random.Random(11)
    url = f"sqlite:///{tmp_path}/memory.db"
    acknowledged: list[str] = []
    in_mid_write = 0
    for round_ in range(25):
        worker = Fork(write, turn, url, "s", f"w{round_}", 100_000)
        first = worker.stdout.readline()
        time.sleep(chosen.uniform(0, 0.03))
        lines = worker.killed(first)
        acknowledged += lines
        with TranscriptStore(url, shared=True) as store:
            last = store.last("s", 1)[-1]
        assert str(last.id).startswith(f"w{round_}-")
        assert str(last.id).endswith("-4"), "half a turn"
        in_mid_write += last.id != f"{lines[-1]}-4"
    assert len(acknowledged) >= 25
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
