"""Bytes and time of checkpointers while a chat grows, beside LangGraph's own.

A turn is 200 characters of the user and 600 of the model. All savers take turn about in one run,
so that what else the machine does befalls them alike; checkpoints are written before the next
step begins (`durability="sync"`). The whole size takes SqliteSaver 1.8 GB and some minutes.

Run: python benchmarks/checkpoint_growth.py [--turns 1000] [--stall-messages 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tokenmem import TokenMemorySaver, TranscriptStore

sys.path.insert(0, str(Path(__file__).parents[1] / "integration_tests"))
import postgres  # a server of one's own, as the integration tests have it

CONFIG: Any = {"configurable": {"thread_id": "chat"}}
LAST = 50
"""Times at the end are medians over so many turns."""

_CALLS = 21
"""Calls of each saver in a run that measures CPU time."""


def words(seed: str, characters: int) -> str:
    """Return text that compresses about as speech does: a repeated line would flatter some."""
    chosen = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    made = [
        "".join(chosen.choices(letters, k=chosen.randint(2, 9))) for _ in range(characters // 4)
    ]
    return " ".join(made)[:characters]


def joined(old: list[AnyMessage], writes: list[list[AnyMessage]]) -> list[AnyMessage]:
    """Reduce writes as `add_messages` does, as a delta channel wants it."""
    written: list[Any] = [one for write in writes for one in write]
    return cast("list[AnyMessage]", add_messages(cast("list[Any]", old), written))


class Whole(TypedDict):
    """The state that every chat has."""

    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    """The state that a chat must have to be stored as changes."""

    messages: Annotated[list[AnyMessage], DeltaChannel(joined, list, snapshot_frequency=100)]


class Timed:
    """Measures a saver's methods; mixed into its class."""

    spent: dict[str, list[float]]

    def put(self, *given: Any) -> Any:
        """Put, and note the seconds."""
        return self._noted("put", super().put, *given)  # type: ignore[misc]

    def get_tuple(self, config: Any) -> Any:
        """Get, and note the seconds."""
        return self._noted("get", super().get_tuple, config)  # type: ignore[misc]

    def _noted(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        started = time.perf_counter()
        found = call(*given)
        self.__dict__.setdefault("spent", {}).setdefault(name, []).append(
            time.perf_counter() - started
        )
        return found


@dataclass
class Runner:
    """One saver, its graph, and what was measured."""

    name: str
    saver: Any
    graph: Any
    size: Callable[[], int]
    turns: list[float] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    def turn(self, number: int) -> None:
        """Take one turn."""
        question = HumanMessage(words(f"h{number}", 200), id=f"h{number}")
        started = time.perf_counter()
        self.graph.invoke({"messages": [question]}, CONFIG, durability="sync")
        self.turns.append(time.perf_counter() - started)

    def seconds(self, what: str) -> float:
        """Return the median at the end, in seconds."""
        taken = self.turns if what == "turn" else self.saver.spent[what]
        per_turn = max(1, len(taken) // len(self.turns))
        return float(statistics.median(taken[-LAST * per_turn :]))


def answer(state: Any) -> dict[str, Any]:
    """Play the model."""
    number = len(state["messages"]) // 2
    return {"messages": [AIMessage(words(f"a{number}", 600), id=f"a{number}")]}


def compiled(schema: type, saver: BaseCheckpointSaver[Any]) -> Any:
    """Return the chat."""
    graph: StateGraph[Any] = StateGraph(schema)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # delta channels announce that they are young
        return graph.compile(checkpointer=saver)


def file_size(path: Path) -> int:
    """Return the bytes of a SQLite database, its log written back."""
    with sqlite3.connect(path, timeout=60) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))


def timed(kind: type, *given: Any, **options: Any) -> Any:
    """Make a saver that is measured."""
    return type(kind.__name__, (Timed, kind), {})(*given, **options)


def stock(stack: ExitStack, folder: Path, name: str, schema: type) -> Runner:
    """Return LangGraph's saver on SQLite."""
    path = folder / f"{schema.__name__}.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    stack.callback(connection.close)
    saver = timed(SqliteSaver, connection)
    return Runner(name, saver, compiled(schema, saver), lambda: file_size(path))


def ours(stack: ExitStack, folder: Path, name: str, **options: Any) -> Runner:
    """Return the saver of this package on SQLite."""
    path = folder / f"ours{len(options)}.db"
    store = stack.enter_context(TranscriptStore(f"sqlite:///{path}"))
    saver = timed(TokenMemorySaver, store, **options)
    return Runner(name, saver, compiled(Whole, saver), lambda: file_size(path))


@contextmanager
def postgres_saver() -> Iterator[Runner | None]:
    """Give LangGraph's saver on PostgreSQL, where that is installed."""
    binaries = postgres.server_binaries()
    if binaries is None:
        yield None
        return
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415  # only where there is one
    from psycopg import Connection  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415

    with postgres.server(binaries) as url:
        address = url.replace("postgresql+psycopg", "postgresql")
        with Connection.connect(address, autocommit=True, row_factory=dict_row) as connection:
            saver = timed(PostgresSaver, connection)
            saver.setup()

            def size() -> int:
                tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
                sizes = [
                    connection.execute("SELECT pg_total_relation_size(%s) AS n", (one,)).fetchone()
                    for one in tables
                ]
                return sum(int(one["n"]) for one in sizes if one)

            yield Runner("PostgresSaver", saver, compiled(Whole, saver), size)


def grown(number: int, history: list[AnyMessage]) -> tuple[Any, ChannelVersions]:
    """Return the checkpoint of a step, and the versions of its channels."""
    versions: ChannelVersions = {"messages": f"{number + 1:032}.5"}
    checkpoint = {
        "v": 4,
        "id": f"{number:032}",
        "ts": "2026-11-21T12:00:00+00:00",
        "channel_values": {"messages": history},
        "channel_versions": versions,
        "versions_seen": {},
    }
    return checkpoint, versions


class Stall(NamedTuple):
    """Longest delays of an event loop in a call, in seconds, over all calls.

    Attributes:
        median: The median.
        worst: The worst.
        worst_uncollected: The worst of the calls in which Python did not go through all objects of
            the process for garbage, which halts everything, whoever made them.
    """

    median: float
    worst: float
    worst_uncollected: float


async def stall(saver: BaseCheckpointSaver[Any] | None, messages: int) -> Stall:
    """Return how long a put and a get keep the event loop from anything else.

    A task that wants to run every half millisecond notes how late it was; of each call the
    longest delay counts. Without a saver it is the machine that is measured.
    """
    history: list[AnyMessage] = [HumanMessage("x" * 400, id=f"m{n}") for n in range(messages)]
    late = [0.0]

    async def watch() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.0005)
            late[0] = max(late[0], time.perf_counter() - started - 0.0005)

    watcher = asyncio.create_task(watch())
    config: Any = {"configurable": {"thread_id": "stall", "checkpoint_ns": ""}}
    found: list[tuple[float, bool]] = []
    for number in range(40):
        history = [*history, HumanMessage("y" * 400, id=f"n{number}")]
        made, versions = grown(number, history)
        await asyncio.sleep(0.005)
        late[0], collections = 0.0, gc.get_stats()[2]["collections"]
        if saver is None:
            await asyncio.sleep(0.02)
        else:
            config = await saver.aput(config, made, {"source": "loop", "step": number}, versions)
            await saver.aget_tuple(config)
        if number > 2:  # the first ones write 2,000 messages, once
            found.append((late[0], gc.get_stats()[2]["collections"] > collections))
    watcher.cancel()
    delays = [delay for delay, _ in found]
    uncollected = [delay for delay, was_collected in found if not was_collected]
    return Stall(statistics.median(delays), max(delays), max(uncollected, default=0.0))


async def stalls(folder: Path, messages: int) -> dict[str, Stall]:
    """Measure the async path of both savers on SQLite."""
    found = {"nothing at all": await stall(None, messages)}
    async with AsyncSqliteSaver.from_conn_string(str(folder / "stall.db")) as theirs:
        found["AsyncSqliteSaver"] = await stall(theirs, messages)
    with TranscriptStore(f"sqlite:///{folder / 'stall-ours.db'}") as store:
        found["TokenMemorySaver"] = await stall(TokenMemorySaver(store), messages)
    return found


class Cost(NamedTuple):
    """CPU seconds of one call of LangGraph's saver and of ours, medians of a run."""

    stock: float
    ours: float


def cpu_costs(messages: int) -> tuple[Cost, Cost, Cost]:
    """Return the cost of a put of a grown list, of a get, and of a get by a new saver.

    The two savers take turn about, and the first call of each is left out. What a get returned is
    freed when its time is taken: that is the application's business.
    """
    history: list[AnyMessage] = [
        made(words(f"{name}{n}", size), id=f"{name}{n}")
        for n in range(messages // 2)
        for made, name, size in ((HumanMessage, "h", 200), (AIMessage, "a", 600))
    ]
    config: Any = {"configurable": {"thread_id": "cost", "checkpoint_ns": ""}}
    puts: list[list[float]] = [[], []]
    gets: list[list[float]] = [[], []]
    first_gets: list[list[float]] = [[], []]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        connection = sqlite3.connect(folder / "stock.db", check_same_thread=False)
        stack.callback(connection.close)
        store = stack.enter_context(TranscriptStore(f"sqlite:///{folder / 'ours.db'}"))
        savers: list[Any] = [SqliteSaver(connection), TokenMemorySaver(store)]
        parents = [config, config]
        for number in range(_CALLS):
            history = [*history, HumanMessage(words(f"n{number}", 200), id=f"n{number}")]
            checkpoint, versions = grown(number, history)
            for at, saver in enumerate(savers):
                metadata = {"source": "loop", "step": number}
                started = time.process_time()
                parents[at] = saver.put(parents[at], checkpoint, metadata, versions)
                puts[at].append(time.process_time() - started)
        for spent in (gets, first_gets):
            for _ in range(_CALLS):
                if spent is first_gets:  # as in another process
                    savers[1] = TokenMemorySaver(store)
                for at, saver in enumerate(savers):
                    started = time.process_time()
                    found = saver.get_tuple(config)
                    spent[at].append(time.process_time() - started)
                    del found
    measured = (puts, gets, first_gets)
    put, get, first = (Cost(*(statistics.median(one[2:]) for one in some)) for some in measured)
    return put, get, first


def print_cpu_costs(console: Console, messages: int) -> None:
    """Print the CPU time of put and get beside SqliteSaver's, the medians of five runs."""
    runs = [cpu_costs(messages) for _ in range(5)]
    bounds = {"put": 0.75, "get of a list that was read before": 0.6, "first get": 1.4}
    for (name, bound), costs in zip(bounds.items(), zip(*runs, strict=True), strict=True):
        ratio = statistics.median(one.ours / one.stock for one in costs)
        ours, stock = (
            statistics.median(getattr(one, whose) for one in costs) * 1e3
            for whose in ("ours", "stock")
        )
        console.print(
            f"CPU time of a {name} at {messages:,} messages over SqliteSaver's: {ratio:.2f} "
            f"({ours:.1f} and {stock:.1f} ms; promised: at most {bound:g})"
        )


def table(runners: list[Runner], turns: int) -> Table:
    """Return what was measured."""
    shown = Table(title=f"{turns:,} turns, 3 checkpoints each")
    for heading in ("saver", f"MB at {turns // 2:,}", f"MB at {turns:,}", "put", "get", "turn"):
        shown.add_column(heading, justify="left" if heading == "saver" else "right")
    for one in runners:
        times = [f"{one.seconds(what) * 1e3:.2f} ms" for what in ("put", "get", "turn")]
        half, whole = (f"{one.sizes[at] / 1e6:,.2f}" for at in (turns // 2, turns))
        shown.add_row(one.name, half, whole, *times)
    return shown


def promises(runners: dict[str, Runner], turns: int) -> list[tuple[str, float, str, float]]:
    """Return what is promised at 1,000 turns, what was found, and the bound."""
    stock, delta, kept, limited = (
        runners[name] for name in ("SqliteSaver", "SqliteSaver, delta", "ours", "ours, keep_last")
    )
    bytes_of = {name: one.sizes[turns] for name, one in runners.items()}
    found = bytes_of["ours"]
    return [
        ("SqliteSaver's bytes over ours", bytes_of[stock.name] / found, "at least", 200),
        ("our bytes over DeltaChannel(100)'s", found / bytes_of[delta.name], "at most", 0.6),
        ("MB with keep_last=10", bytes_of[limited.name] / 1e6, "at most", 2.5),
        (
            f"our bytes at {turns:,} over {turns // 2:,}",
            found / kept.sizes[turns // 2],
            "at most",
            2.2,
        ),
        ("our put over SqliteSaver's", kept.seconds("put") / stock.seconds("put"), "at most", 0.25),
        (
            "our turn over SqliteSaver's",
            kept.seconds("turn") / stock.seconds("turn"),
            "at most",
            0.6,
        ),
    ]


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--stall-messages", type=int, default=2_000)
    options = parser.parse_args()
    turns = max(2, options.turns // 2 * 2)
    console = Console(width=110)
    print_cpu_costs(console, options.stall_messages)  # first: no other saver's objects are there
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runners = [
            stock(stack, folder, "SqliteSaver", Whole),
            stock(stack, folder, "SqliteSaver, delta", Delta),
            ours(stack, folder, "ours"),
            ours(stack, folder, "ours, keep_last", keep_last=10),
        ]
        on_postgres = stack.enter_context(postgres_saver())
        runners += [on_postgres] if on_postgres else []
        for number in track(
            range(1, turns + 1), "turns", console=Console(stderr=True), transient=True
        ):
            for one in runners:
                one.turn(number - 1)
                if number in {turns // 2, turns}:
                    one.sizes[number] = one.size()
        console.print(table(runners, turns))
        for name, value, relation, bound in promises({one.name: one for one in runners}, turns):
            console.print(f"{name}: {value:,.2f} (promised for 1,000 turns: {relation} {bound:g})")
        late = asyncio.run(stalls(folder, options.stall_messages))
    for name, held in late.items():
        console.print(
            f"event loop held up by {name} at {options.stall_messages:,} messages: median "
            f"{held.median * 1e3:.1f} ms, worst {held.worst * 1e3:.1f} ms, "
            f"{held.worst_uncollected * 1e3:.1f} ms where Python collected no garbage"
        )
    console.print("  (promised for TokenMemorySaver at 2,000 messages: below 5 ms)")


if __name__ == "__main__":
    main()
