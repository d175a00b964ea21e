"""Expiry of sessions with kills, concurrent writers, several processes, PostgreSQL and Chroma."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from langchain_core.messages import AIMessage, HumanMessage
from processes import Fork

from langchain_tokenmem import Recall, TranscriptStore
from langchain_tokenmem.storage import lifecycle
from langchain_tokenmem.storage.tables import metadata

MONTH = timedelta(days=30)
LONG_AGO = datetime(2020, 1, 31, tzinfo=UTC)


def old(store, count, *, messages=4):
    for number in range(count):
        said = [HumanMessage(f"copper {number} {n}", id=f"m{n}") for n in range(messages)]
        store.add(f"s{number:04}", said, user_id=f"u{number % 3}", now=LONG_AGO)


def left(store):
    """Return the rows of every table but for the facts."""
    with store.database.reading("Test") as connection:
        return {
            table.name: count
            for table in metadata.tables.values()
            if table.name != "tokenmem_facts"
            and (count := len(connection.execute(table.select()).all()))
        }


def expire(url):
    """Expire sessions, five at once, and print how many there were."""
    lifecycle._MOST_SESSIONS = 5
    with TranscriptStore(url, shared=True) as store:
        store.expire(MONTH, progress=lambda done: print(done, flush=True))


def test_a_run_that_is_killed_half_way_goes_on_and_leaves_no_half_session(url):
    chosen = random.Random(7)
    with TranscriptStore(url, shared=True) as store:
        Recall(store)
        old(store, 120)
    kills = 0
    for _ in range(6):
        worker = Fork(expire, url)
        if not worker.stdout.readline():
            worker.communicate(timeout=30)
            break
        time.sleep(chosen.uniform(0, 0.02))
        worker.killed()
        kills += 1
        with TranscriptStore(url, shared=True) as store:
            names = store.sessions()
            assert all(store.count(name) == len(store.messages(name)) == 4 for name in names)
    with TranscriptStore(url, shared=True) as store:
        assert kills >= 3
        store.expire(MONTH)
        assert left(store) == {}


def test_what_is_said_while_sessions_expire_is_never_lost(store):
    old(store, 150)
    told: list[str] = []
    ended = threading.Event()

    def come_back(seed):
        chosen = random.Random(seed)
        while not ended.is_set():
            name = f"s{chosen.randrange(150):04}"
            key = f"back-{seed}-{len(told)}-{chosen.random()}"
            store.add(name, [AIMessage("I am back.", id=key)])
            told.append(f"{name} {key}")

    with ThreadPoolExecutor(3) as pool:
        writers = pool.map(come_back, range(3))
        while len(told) < 5:
            time.sleep(0.001)
        report = store.expire(MONTH)
        ended.set()
        assert [*writers] == [None] * 3  # map() re-raises their errors
    stored = {f"{name} {row.message.id}" for name in store.sessions() for row in store.rows(name)}
    assert set(told) <= stored
    # Whoever came back in time found the session as it was.
    whole = [name for name in store.sessions() if name not in report.expired]
    assert whole
    assert all(store.count(name) > 4 for name in whole)


def test_two_processes_expire_at_once_and_each_session_goes_once(store, url):
    old(store, 60)
    with TranscriptStore(url, shared=True) as other, ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(one.expire, MONTH) for one in (store, other)]
        gone = [name for run in runs for name in run.result().expired]
    assert sorted(gone) == [f"s{n:04}" for n in range(60)]
    assert store.sessions() == []
