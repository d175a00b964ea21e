"""Costs at large sizes: many sessions, one long session, and a long run. SQLite, or PostgreSQL.

- `sessions`: a page of the list, `erase`, `delete_thread` and `expire` of 20 sessions, among 1,000
  sessions and among `--sessions`, by turns. Limit: twice the cost. `--postgres` for PostgreSQL.
- `long`: the first turn of a new process (after its imports) of a chat history with recall, in a
  session of 2,000 messages and in one of `--messages`. Limit: 1.5 times the cost.
- `soak`: `--turns` turns over 200 sessions in one process; resident memory, handles and threads
  after a tenth of them and at the end. Limit: 10 % more memory, no more handles or threads.

Run: python benchmarks/sizes.py [sessions] [long] [soak] [--sessions 100000] [--messages 200000]
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "integration_tests"))
import postgres  # a server of one's own, as the integration tests have it
from _talk import Talk
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryChatHistory,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.storage.sessions import page_of_sessions

SMALL_SESSIONS = 1_000
SMALL_MESSAGES = 2_000
VICTIMS = 20
"""Sessions that one measured call or row of calls deletes."""

OLD = datetime(2020, 1, 1, tzinfo=UTC)
ROUNDS = 9
COLD_RUNS = 5
SOAK_SESSIONS = 200
WINDOW = 4_000


def milliseconds(run: Callable[[], object]) -> float:
    """Return the time of one call."""
    started = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - started)


def compared(what: str, small: float, large: float, limit: float) -> bool:
    """Print a cost at both sizes; return whether it is within its limit."""
    ratio = large / small
    is_kept = ratio <= limit
    print(
        f"{what:36} {small:9.2f} ms {large:9.2f} ms   ratio {ratio:5.2f}, at most {limit}"
        f"{'' if is_kept else '   MISSED'}",
        flush=True,
    )
    return is_kept


def grown(store: TranscriptStore, start: int, stop: int) -> None:
    """Add sessions of two messages, each owned by a different user."""
    talk = Talk(start)
    for number in range(start, stop):
        store.add(f"s{number}", [talk.message(0), talk.message(1)], user_id=f"u{number}")


def saver_deletes(saver: TokenMemorySaver, names: Sequence[str]) -> None:
    """Delete threads."""
    for name in names:
        saver.delete_thread(f"t{name}")


def calls_on(store: TranscriptStore, names: Sequence[str]) -> dict[str, Callable[[], object]]:
    """Add sessions to a store; return the calls that are measured on them."""
    saver = TokenMemorySaver(store)
    graph: Any = StateGraph(MessagesState)
    graph.add_node("answer", lambda _: {"messages": [AIMessage("Noted.")]})
    graph.add_edge(START, "answer")
    chat = graph.compile(checkpointer=saver)
    for name in names:
        store.add(f"e{name}", [HumanMessage("Where is my parcel?")])
        store.add(f"x{name}", [HumanMessage("Where is my parcel?")], now=OLD)
        asked = {"messages": [HumanMessage("Where is my parcel?")]}
        chat.invoke(asked, {"configurable": {"thread_id": f"t{name}"}})

    def page() -> None:
        with store.database.reading("a page") as connection:
            page_of_sessions(connection, limit=20)

    return {
        "a page of the list": page,
        f"erase of {VICTIMS} sessions": lambda: [store.erase(session_id=f"e{n}") for n in names],
        f"delete_thread of {VICTIMS} threads": lambda: saver_deletes(saver, names),
        f"expire that deletes {VICTIMS} sessions": lambda: store.expire(timedelta(days=1_000)),
    }


def print_sessions(folder: Path, sessions: int, *, on_postgres: bool) -> bool:
    """Print what many sessions cost; return whether all limits are kept."""
    taken: dict[str, tuple[list[float], list[float]]] = {}
    with ExitStack() as stack:
        server = ""
        if on_postgres:
            programs = postgres.server_binaries()
            assert programs is not None, "no programs of a PostgreSQL server on this machine"
            server = stack.enter_context(postgres.server(programs))
        stores = []
        for size in (SMALL_SESSIONS, sessions):
            url = f"sqlite:///{folder}/{size}.db"
            if on_postgres:
                url = stack.enter_context(postgres.database(server))
            store = stack.enter_context(TranscriptStore(url, shared=True))
            stack.enter_context(Recall(store))  # from here on words are indexed
            grown(store, 0, size)
            stores.append(store)
        for attempt in range(ROUNDS):  # they take turn about: the machine has other work
            for number, store in enumerate(stores):
                names = [f"{attempt}-{victim}" for victim in range(VICTIMS)]
                for what, run in calls_on(store, names).items():
                    found = taken.setdefault(what, ([], []))
                    found[number].append(milliseconds(run))
    where = "PostgreSQL" if on_postgres else "SQLite"
    print(f"{SMALL_SESSIONS:,} sessions beside {sessions:,}, {where}")
    medians = {what: [*map(statistics.median, both)] for what, both in taken.items()}
    kept = [compared(what, small, large, 2.0) for what, (small, large) in medians.items()]
    return all(kept)


def first_turn(path: str, name: str) -> None:
    """Be a new process: take a turn, and print its milliseconds."""
    question = Talk(os.getpid()).question()

    def turn() -> None:
        with TranscriptStore(path) as store, Recall(store) as recall:
            memory = TokenMemory(WINDOW, recall=recall)
            history = TokenMemoryChatHistory(name, memory=memory, store=store, user_id="u")
            history.add_messages([HumanMessage(question)])
            assert history.view().messages
            history.add_messages([AIMessage("It is on its way.")])

    print(milliseconds(turn))


def print_long(folder: Path, messages: int) -> bool:
    """Print what the first turn costs in a short and in a long session."""
    path, talk = f"sqlite:///{folder}/long.db", Talk()
    sizes = {"short": SMALL_MESSAGES, "long": messages}
    with TranscriptStore(path) as store, Recall(store) as recall:
        memory = TokenMemory(WINDOW, recall=recall)
        for name, size in sizes.items():
            for start in range(0, size, 1_000):
                batch = [talk.message(number) for number in range(start, start + 1_000)]
                store.add(name, batch, user_id="u")
                TokenMemoryChatHistory(name, memory=memory, store=store, user_id="u").compact()
    taken: dict[str, list[float]] = {name: [] for name in sizes}
    for name in [*sizes] * COLD_RUNS:  # they take turn about
        command = [sys.executable, __file__, "--first-turn", path, name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        taken[name].append(float(done.stdout))
    print(f"{SMALL_MESSAGES:,} messages in a session beside {messages:,}")
    small, large = (statistics.median(taken[name]) for name in sizes)
    return compared("first turn of a process", small, large, 1.5)


def held() -> tuple[float, int, int]:
    """Return MB of resident memory, open handles, and threads of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text("utf-8")
    resident = int(status.partition("VmRSS:")[2].split()[0]) / 1e3
    return resident, len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208


def print_soak(folder: Path, turns: int) -> bool:
    """Print what a long run holds after its first tenth and at its end."""
    talk = Talk()
    early, started = held(), time.perf_counter()
    with TranscriptStore(f"sqlite:///{folder}/soak.db") as store, Recall(store) as recall:
        memory = TokenMemory(WINDOW, recall=recall)
        for number in range(turns):
            user = f"u{number % SOAK_SESSIONS}"
            history = TokenMemoryChatHistory(f"s-{user}", memory=memory, store=store, user_id=user)
            history.add_messages([HumanMessage(f"{' '.join(talk.words(30))}?")])
            assert history.view().messages
            history.add_messages([AIMessage(f"{' '.join(talk.words(60))}.")])
            if number + 1 == turns // 10:
                early = held()
        late, took = held(), time.perf_counter() - started
    print(f"{turns:,} turns over {SOAK_SESSIONS} sessions, {1e3 * took / turns:.1f} ms each")
    names = ("resident memory, MB", "handles", "threads")
    limits = (early[0] * 1.1, early[1], early[2])
    for name, first, last, limit in zip(names, early, late, limits, strict=True):
        print(f"{name:36} {first:9.0f} {last:12.0f}   at most {limit:.0f}"
              f"{'' if last <= limit else '   MISSED'}")  # fmt: skip
    return all(last <= limit for last, limit in zip(late, limits, strict=True))


def main(arguments: Sequence[str]) -> None:
    """Print each table with its limits; a missed one ends with an error."""
    if arguments[:1] == ["--first-turn"]:
        first_turn(*arguments[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="sessions, long, soak; default: all")
    parser.add_argument("--sessions", type=int, default=3_000, help="promised for 100,000")
    parser.add_argument("--messages", type=int, default=10_000, help="promised for 200,000")
    parser.add_argument("--turns", type=int, default=2_000, help="promised for 20,000")
    parser.add_argument("--postgres", action="store_true", help="sessions on PostgreSQL")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[Path], bool]] = {
        "sessions": lambda folder: print_sessions(
            folder, options.sessions, on_postgres=options.postgres
        ),
        "long": lambda folder: print_long(folder, options.messages),
        "soak": lambda folder: print_soak(folder, options.turns),
    }
    missed = []
    for name in options.parts or parts:
        with tempfile.TemporaryDirectory() as folder:
            if not parts[name](Path(folder)):
                missed.append(name)
    if missed:
        raise SystemExit(f"limits missed: {', '.join(missed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
