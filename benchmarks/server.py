"""Turns a second of agents on PostgreSQL, beside LangGraph's saver; and a server that goes away.

Some processes serve some sessions each, one turn of each after the other: `create_agent` with a
scripted model that answers at once, so that memory and checkpoints are all that takes time. Ours
has recall and `TokenMemorySaver`; the peer has `PostgresSaver` and `SummarizationMiddleware`, from
80 % of the window down to 30 %. Systems take turn about, each time on an empty database of one
server in a temporary directory (`fsync=off` for both: the disk is not measured).

With `--crash` ours alone is run while its connections are terminated and the server is stopped as
by a crash and started again. A turn that has failed is taken again under the same message id, and
what was acknowledged must be there afterwards.

Run: python benchmarks/server.py [--processes 8] [--sessions 400] [--turns 10] [--crash]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from _talk import Talk
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, text

from langchain_tokenmem import (
    Recall,
    TokenMemory,
    TokenMemoryMiddleware,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.errors import StoreError

sys.path.insert(0, str(Path(__file__).parents[1] / "integration_tests"))
import postgres  # a server of one's own, as the integration tests have it

WINDOW = 4_000
GOAL = 2.0
SYSTEMS = {"ours": "this package", "peer": "PostgresSaver, SummarizationMiddleware"}


def model() -> FakeListChatModel:
    """Return a model that answers at once, in about 60 words."""
    talk = Talk(1)
    return FakeListChatModel(responses=[" ".join(talk.words(60)) + "." for _ in range(50)])


@contextmanager
def ours(url: str) -> Iterator[Any]:
    """Give an agent with recall and checkpoints in one store."""
    with TranscriptStore(url, shared=True) as store, Recall(store) as recall:
        memory = TokenMemory(WINDOW, recall=recall)
        yield create_agent(
            model(),
            middleware=[TokenMemoryMiddleware(memory)],
            checkpointer=TokenMemorySaver(store),
        )
        memory.background_summaries.wait(30)


@contextmanager
def peer(url: str) -> Iterator[Any]:
    """Give an agent with LangGraph's checkpoints and LangChain's summaries."""
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415  # an extra

    address = url.replace("postgresql+psycopg", "postgresql")
    with PostgresSaver.from_conn_string(address) as saver:
        summarizing = SummarizationMiddleware(
            model(), trigger=("tokens", WINDOW * 8 // 10), keep=("tokens", WINDOW * 3 // 10)
        )
        yield create_agent(model(), middleware=[summarizing], checkpointer=saver)


def serve(options: argparse.Namespace) -> None:
    """Be one of the processes: take the turns, and say how long each took and what is stored."""
    agent_on = {"ours": ours, "peer": peer}[options.worker]
    talk = Talk(options.number)
    if options.crash:  # each trouble is logged: a crash has hundreds
        logging.getLogger("langchain_tokenmem").setLevel(logging.CRITICAL)
    with agent_on(options.url) as agent:
        print("ready", flush=True)
        sys.stdin.readline()
        for turn in range(options.turns):
            for session in range(options.sessions):
                thread = f"p{options.number}-s{session}"
                question = HumanMessage(" ".join(talk.words(40)) + "?", id=f"{thread}-{turn}")
                failed, started = 0, time.perf_counter()
                while (answer := take(agent, thread, question, options.crash)) is None:
                    failed += 1
                    time.sleep(0.1)
                took = time.perf_counter() - started
                print(json.dumps([thread, question.id, answer, took, failed]), flush=True)


def take(agent: Any, thread: str, question: HumanMessage, is_crash_expected: bool) -> str | None:  # noqa: FBT001
    """Take a turn, and return the id of its answer; None where the server was away."""
    config = {"configurable": {"thread_id": thread, "user_id": thread}}
    try:
        return str(agent.invoke({"messages": [question]}, config)["messages"][-1].id)
    except StoreError:
        if not is_crash_expected:
            raise
        return None


def started_workers(
    system: str, url: str, options: argparse.Namespace, folder: Path
) -> list[subprocess.Popen[str]]:
    """Start the processes, and return them when each is ready."""
    workers = []
    share = str(options.sessions // options.processes)
    given = ["--worker", system, "--url", url, "--turns", str(options.turns), "--sessions", share]
    for number in range(options.processes):
        worker = subprocess.Popen(
            [sys.executable, __file__, *given, "--number", str(number)]
            + ["--crash"] * options.crash,
            stdin=subprocess.PIPE,
            stdout=(folder / str(number)).open("w"),
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        workers.append(worker)
    while not all("ready" in path.read_text() for path in folder.iterdir()):
        if any(worker.poll() for worker in workers):
            raise SystemExit("a process failed before its first turn")
        time.sleep(0.1)
    return workers


def run(system: str, url: str, options: argparse.Namespace) -> tuple[float, list[Any], int]:
    """Return the seconds of all turns, the lines of the processes, and bytes of the database."""
    with ours(url) as agent:  # makes the tables, once
        agent.get_state({"configurable": {"thread_id": "none"}})
    if system == "peer":
        with peer(url) as agent:
            agent.checkpointer.setup()
    before = size(url)
    with tempfile.TemporaryDirectory() as name:
        workers = started_workers(system, url, options, Path(name))
        started = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.close()
        if options.crash:
            disturb(url, Path(name))
        if any([worker.wait() for worker in workers]):  # noqa: C419  # each is waited for
            raise SystemExit("a process failed")
        took = time.perf_counter() - started
        lines = [
            json.loads(line)
            for path in sorted(Path(name).iterdir())
            for line in path.read_text().splitlines()[1:]
        ]
    return took, lines, size(url) - before


def size(url: str) -> int:
    """Return the bytes of a database."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    engine.dispose()
    return int(found)


def disturb(url: str, folder: Path) -> None:
    """Terminate all connections twice, then stop the server as a crash does, and start it."""
    data = Path(parse_qs(urlsplit(url).query)["host"][0]) / "data"
    binaries = postgres.server_binaries()
    assert binaries is not None
    user = ["runuser", "-u", postgres.USER, "--"] if os.geteuid() == 0 else []
    control = [*user, str(binaries / "pg_ctl"), "-D", str(data), "-w"]
    options = f"-c listen_addresses='' -c unix_socket_directories={data.parent}"
    again = ["-l", str(data.parent / "log"), "-o", options, "start"]
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    for is_stop in (False, False, True):
        before = acknowledged(folder)
        while acknowledged(folder) < before + 100:  # work goes on after each disturbance
            time.sleep(0.1)
        if is_stop:
            for command in (["-m", "immediate", "stop"], again):
                subprocess.run(
                    [*control, *command], check=True, cwd=data.parent, stdout=subprocess.DEVNULL
                )
        else:
            engine = create_engine(url, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                ended = len(connection.execute(text(others)).all())
            engine.dispose()
            print(f"{ended} connections terminated")
    print("server stopped and started")


def acknowledged(folder: Path) -> int:
    """Return how many turns have ended."""
    return sum(len(path.read_text().splitlines()) for path in folder.iterdir())


def check_kept(url: str, lines: list[Any]) -> None:
    """Stop where a question or an answer that was acknowledged is not there."""
    with ours(url) as agent, TranscriptStore(url, shared=True) as store:
        for thread in {line[0] for line in lines}:
            names = [name for line in lines if line[0] == thread for name in line[1:3]]
            state = agent.get_state({"configurable": {"thread_id": thread}}).values["messages"]
            for where, held in (("checkpoint", state), ("transcript", store.messages(thread))):
                lost = set(names) - {message.id for message in held}
                if lost:
                    raise SystemExit(f"{thread}: {len(lost)} messages not in the {where}")
    failed = sum(line[4] for line in lines)
    print(f"{len(lines):,} turns acknowledged, {failed} failed and taken again, none lost")


def main() -> None:
    """Print the table, or what a crash has cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("processes", 8), ("sessions", 400), ("turns", 10), ("rounds", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--crash", action="store_true", help="the server goes away in the middle")
    for name in ("worker", "url", "number"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options)
        return
    binaries = postgres.server_binaries()
    if binaries is None:
        raise SystemExit("PostgreSQL is not installed (apt-get install postgresql)")
    rates: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    with postgres.server(binaries) as server:
        if options.crash:  # in the server's own database: none has to be dropped afterwards
            check_kept(server, run("ours", server, options)[1])
            return
        for _ in range(options.rounds):
            for system, name in SYSTEMS.items():
                with postgres.database(server) as url:
                    took, lines, grown = run(system, url, options)
                rates[system].append(len(lines) / took)
                times = statistics.quantiles((1e3 * line[3] for line in lines), n=100)
                print(
                    f"{name:40} {len(lines) / took:6.1f} turns/s   p50 {times[49]:6.0f} ms   "
                    f"p99 {times[98]:6.0f} ms   {grown / 1e6:7.1f} MB",
                    flush=True,
                )
    ratio = statistics.mean(rates["ours"]) / statistics.mean(rates["peer"])
    print(f"turns per second beside the peer: {ratio:.2f} (goal: at least {GOAL:.0f})")


if __name__ == "__main__":
    main()
