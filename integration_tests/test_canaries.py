"""Canaries are planted through every integration and redacted: not one is found again."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from canary_paths import CASES, PATHS, USER, Case, Place, live, opened, rebuild
from processes import Fork, start
from sqlalchemy import create_engine, select

from langchain_tokenmem import TokenMemorySaver
from langchain_tokenmem.storage.tables import metadata

CANARY = re.compile(r"canary-[0-9a-f]{12}")
ZLIB_START = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
TURNS, KILLED_TURNS = 4, 2
"""Of each path: some in a process that is killed, the others in this one."""


def plant_and_kill(case: Case, url: str, folder: Path) -> list[str]:
    """Kill a process on each path in the middle of a turn; return the canaries of ended turns."""
    planted: list[str] = []
    for name in PATHS:
        process = Fork(live, case, url, folder, name)
        heard = [process.stdout.readline() for _ in range(KILLED_TURNS)]
        time.sleep(random.Random(name).uniform(0, 0.03))
        ended = process.killed(*heard)[:KILLED_TURNS]
        planted += [canary for line in ended for canary in json.loads(line)]
    return planted


def take_turns(place: Place, count: int) -> None:
    """Take turns on every path."""

    async def turns() -> None:
        for name, path in PATHS.items():
            turn = path(place, name)
            for _ in range(count):
                await turn()

    asyncio.run(turns())


def readable(data: bytes) -> Iterator[bytes]:
    """Yield bytes, and what is compressed in them."""
    yield data
    for found in ZLIB_START.finditer(data):
        stream, plain = zlib.decompressobj(), b""
        try:
            for at in range(found.start(), len(data), 64):
                plain += stream.decompress(data[at : at + 64])
                if stream.eof:
                    break
        except zlib.error:
            pass
        yield plain


def cells_of(url: str) -> Iterator[bytes]:
    """Yield every value of every row of our tables."""
    engine = create_engine(url)
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                for cell in row:
                    yield (
                        bytes(cell) if isinstance(cell, (bytes, memoryview)) else str(cell).encode()
                    )
    engine.dispose()


def with_unused_memory(folder: Path) -> list[Path]:
    """Return Chroma's files that hold numbers, and behind them unused memory of the process.

    Whatever was in the memory is there (chroma-core/chroma#7688): pieces of words, too. A whole
    canary is not in them either.
    """
    files = [*folder.rglob("data_level0.bin"), *folder.rglob("length.bin")]
    texts = [file.read_bytes().decode(errors="replace") for file in files]
    assert CANARY.findall(" ".join(texts)) == []
    return files


def files_of(folder: Path) -> Iterator[bytes]:
    """Yield every file below a folder, with its name, but for two files of Chroma."""
    for file in {*folder.rglob("*")} - {*with_unused_memory(folder)}:
        yield file.name.encode() + b"\0" + (file.read_bytes() if file.is_file() else b"")


def found_in(kept: Iterator[bytes]) -> set[str]:
    """Return all canaries, and pieces of canaries, that are kept; terms are in lower case."""
    found: set[str] = set()
    for data in kept:
        for plain in readable(data):
            found.update(map(bytes.decode, re.findall(rb"canary[-0-9a-f]*", plain.lower())))
    return found


def found_by_search(place: Place, planted: list[str]) -> set[str]:
    """Return the canaries in whatever a search, a listing or a checkpoint gives."""
    answers: list[object] = [place.notebook.list(user_id=USER)]
    saver = TokenMemorySaver(place.store)
    for name in place.store.sessions(user_id=USER):
        scope = {"session_id": name, "user_id": USER}
        for canary in planted[:: len(planted) // 3]:
            answers += place.recall.search(canary, **scope)
            answers += place.notebook.search(canary, **scope)
        answers += place.recall.history_search("codes|redacted", **scope, include_superseded=True)
        answers += place.store.export_session(name, user_id=USER)
        answers += saver.list({"configurable": {"thread_id": name, "user_id": USER}})
    assert len(answers) > 300
    return found_in(repr(answer).encode() for answer in answers)


def requests_of(place: Place) -> list[bytes]:
    """Return what every model has received, and forget it."""
    requests = [repr(request).encode() for model in place.models for request in model.requests]
    for model in place.models:
        model.requests.clear()
    return requests


@pytest.mark.parametrize("name", CASES)
def test_no_canary_of_a_thousand_is_found_after_a_redaction(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    case: Case = CASES[name]
    folder = tmp_path / "memory"
    folder.mkdir()
    if case.database == "sqlite":
        url = f"sqlite:///{folder}/memory.db"
    else:
        url = request.getfixturevalue("postgres")

    planted = plant_and_kill(case, url, folder)
    place = opened(case, url, folder)
    take_turns(place, TURNS - KILLED_TURNS)
    place.recall.index()
    planted += place.planted
    assert len(set(planted)) == 25 * TURNS * len(PATHS)
    assert {*planted} <= found_in(cells_of(url)) | found_in(files_of(folder)), "planted and found"
    assert found_in(iter(requests_of(place)))

    redact = getattr(place, case.redacts).redact
    own_store = {"store": place.store} if case.redacts == "memory" else {}
    receipt = redact(CANARY, **case.scope, **own_store)
    assert receipt.counts.keys() >= {
        "messages",
        "documents",
        "states",
        "checkpoint_writes",
        "notes",
    }
    assert len(receipt.unreached) == (case.database == "postgresql")  # old versions of its rows

    assert found_in(files_of(folder)) == set(), "while the store is open, with its -wal"
    for known in (place, None):  # the same process, and a new one
        later = known or opened(case, url, folder)
        later.is_planting = False
        take_turns(later, 1)
        requests = requests_of(later)
        assert len(requests) > len(PATHS)
        assert found_in(iter(requests)) == set()
        later.recall.index()
        assert found_by_search(later, planted) == set()
        later.close()
    worker = start(rebuild, name, url, str(folder))
    _, errors = worker.communicate(timeout=300)
    assert worker.returncode == 0, errors
    assert len(with_unused_memory(folder)) == 2 * (case.vectors == "chroma")
    assert found_in(cells_of(url)) == set()
    assert found_in(files_of(folder)) == set()
