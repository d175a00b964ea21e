"""A PostgreSQL server that goes away in the middle of a run, and comes back."""

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import postgres
import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import StoreError
from tests.adapters.integrations import at, put

WRITERS = 4


class Server:
    """Stops and starts the server behind a URL."""

    def __init__(self, binaries: Path, url: str) -> None:
        self.url = url
        self._folder = Path(parse_qs(urlsplit(url).query)["host"][0])
        self._control = binaries / "pg_ctl"

    def run(self, *command: str) -> None:
        given = [
            *postgres.as_user(),
            str(self._control),
            "-D",
            str(self._folder / "data"),
            "-w",
            *command,
        ]
        subprocess.run(given, check=True, timeout=60, cwd=self._folder, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        self.run("-m", "immediate", "stop")  # as a crash: nothing is finished or said good-bye to

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder}"
        self.run("-l", str(self._folder / "log"), "-o", options, "start")


@pytest.fixture(scope="module")
def server(postgres_url: str) -> Iterator[Server]:
    binaries = postgres.server_binaries()
    assert binaries is not None
    # A server of its own: the other tests' must not be stopped.
    with postgres.server(binaries) as url:
        yield Server(binaries, url)


def values_of(thread: str, count: int) -> dict[str, object]:
    said = [HumanMessage(f"{thread} {n}", id=f"{thread}-{n}") for n in range(count)]
    return {"messages": said, "count": count, "filler": f"{thread} {count} " * 50}


class Writer(threading.Thread):
    """Puts checkpoints with writes, again and again, whatever happens."""

    def __init__(self, saver: TokenMemorySaver, thread: str, stop: threading.Event) -> None:
        super().__init__()
        self.saver, self.thread_id, self.stop = saver, thread, stop
        self.acknowledged: dict[str, int] = {}
        self.errors: list[BaseException] = []

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self._once()
            except StoreError as error:  # that is what is tested
                self.errors.append(error)
                self.stop.wait(0.02)
            except BaseException as error:  # noqa: BLE001  # it is raised again in the test
                self.errors.append(error)
                return

    def _once(self) -> None:
        head = self.saver.get_tuple(at(self.thread_id))
        count = 1 if head is None else head.checkpoint["channel_values"]["count"] + 1
        parent = at(self.thread_id) if head is None else head.config
        values = values_of(self.thread_id, count)
        made = put(self.saver, parent, None, values, f"{count:032}.5", step=count)
        self.saver.put_writes(made, [("a", count), ("b", values["messages"])], "task", "path")
        self.acknowledged[made["configurable"]["checkpoint_id"]] = count


def gone_on(writers: list[Writer]) -> int:
    """Return how many checkpoints were acknowledged, when each writer has put some more."""
    before = [len(writer.acknowledged) for writer in writers]
    for writer, count in zip(writers, before, strict=True):
        for _ in range(600):
            if len(writer.acknowledged) > count + 2:
                break
            time.sleep(0.1)
    return sum(len(writer.acknowledged) for writer in writers)


def test_a_server_stopped_and_started_in_mid_run(server: Server) -> None:
    stop = threading.Event()
    before: list[int] = []
    with TranscriptStore(server.url, shared=True) as store:
        saver = TokenMemorySaver(store)
        writers = [Writer(saver, f"t{n}", stop) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        for _ in range(2):
            before.append(gone_on(writers))
            server.stop()
            stop.wait(0.3)
            server.start()
        gone_on(writers)
        stop.set()
        for writer in writers:
            writer.join(60)
            assert not writer.is_alive(), "it hangs"
        errors = [error for writer in writers for error in writer.errors]
        assert all(isinstance(error, StoreError) for error in errors), errors
        assert all("Thread 't" in str(error) for error in errors), "it does not say what failed"
        assert errors, "the server was never missed"
        total = sum(len(writer.acknowledged) for writer in writers)
        assert 0 < before[0] < before[1] < total, "work did not go on"
        for writer in writers:
            check(saver, store, writer)


def check(saver: TokenMemorySaver, store: TranscriptStore, writer: Writer) -> None:
    found = list(saver.list(at(writer.thread_id)))
    by_id = {one.config["configurable"]["checkpoint_id"]: one for one in found}
    assert writer.acknowledged.keys() <= by_id.keys(), "lost"
    for name, one in by_id.items():
        count = one.checkpoint["channel_values"]["count"]
        values = values_of(writer.thread_id, count)
        assert one.checkpoint["channel_values"] == values, "half a checkpoint"
        written = [("task", "a", count), ("task", "b", values["messages"])]
        assert one.pending_writes in ([], written), "half of the writes"
        if name in writer.acknowledged:
            assert one.pending_writes == written
    most = max(writer.acknowledged.values())
    expected = values_of(writer.thread_id, most)["messages"]
    assert store.messages(writer.thread_id)[:most] == expected
