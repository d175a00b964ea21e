"""Canaries (random words) are planted wherever words are kept, and redacted: none is left."""

import asyncio
import re
import secrets
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from processes import finished, start
from sqlalchemy import create_engine, select

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.notes import JsonStore, SqlStore
from langchain_tokenmem.recall import ChromaIndex, HashingEmbeddings
from langchain_tokenmem.storage.tables import metadata
from langchain_tokenmem.summarizers import ModelSummarizer
from tests.contract.chats import Talker, Way, calling, pin

USER = "ann"
TURNS = 3
CANARY = re.compile(r"canary-[0-9a-f]{12}")
ZLIB_START = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
CASES: dict[str, dict[str, Any]] = {
    "sqlite-json-chroma": {"user_id": USER},
    "postgresql-sql-table": {"everywhere": True},
}
"""Where words, notes and vectors are kept, and what is redacted."""


class Place:
    """One process's memory and stores, and the canaries that it has planted."""

    def __init__(self, case: str, url: str, folder: Path) -> None:
        self.store = TranscriptStore(url)
        vectors: dict[str, Any] = {"embeddings": HashingEmbeddings(32)}
        if "chroma" in case:
            vectors = {"chroma": ChromaIndex(folder / "chroma", **vectors)}
        self.recall = Recall(self.store, **vectors)
        items = JsonStore(folder / "notes") if "json" in case else SqlStore(self.store)
        self.notes = Notebook(items)
        self.models = [Talker(answer=lambda request: f"Summary: {request[-1].text[-600:]}")]
        self.memory = TokenMemory(
            TokenBudget(context_window=2_000),
            summarizer=ModelSummarizer(self.models[0], min_characters=0, min_messages=1),
            recall=self.recall,
            notes=self.notes,
        )
        self.planted: list[str] = []
        self.is_planting = True

    def words(self, count: int) -> str:
        """Return new canaries as text; other words once planting has ended."""
        if not self.is_planting:
            return "nothing secret"
        new = [f"canary-{secrets.token_hex(6)}" for _ in range(count)]
        self.planted += new
        return f"The codes are {' '.join(new)}."

    def requests(self) -> list[bytes]:
        """Return what every model has received, and forget it."""
        requests = [repr(one).encode() for model in self.models for one in model.requests]
        for model in self.models:
            model.requests.clear()
        return requests

    def close(self) -> None:
        self.memory.close()
        self.recall.close()
        self.store.close()
        if isinstance(self.notes.store, JsonStore):
            self.notes.store.close()


async def talk(place: Place, name: str) -> None:
    """Take turns with calls of a tool, edit a question, and pin something."""
    chat_name, _, durability = name.partition("-")

    @tool
    def look_up(query: str) -> str:
        """Look something up."""
        return place.words(5)

    def answer(request: list[BaseMessage]) -> AIMessage:
        if isinstance(request[-1], ToolMessage):
            return AIMessage(place.words(5))
        return calling("look_up", secrets.token_hex(4), query=place.words(5))

    model = Talker(answer=answer)
    place.models.append(model)
    way = Way(chat_name, is_async=durability == "async", url="")
    here: Any = {"store": place.store, "thread": name, "user": USER}
    chat: Any = way.chat(place.memory, model=model, tools=[look_up], **here)
    if durability:
        chat.graph = chat.graph.bind(durability=durability)
    for _ in range(TURNS if place.is_planting else 1):
        asked = HumanMessage(place.words(10), id=secrets.token_hex(4))
        await chat.ask(asked)
    new = HumanMessage(place.words(5), id=asked.id)
    place.store.edit(name, str(asked.id), new, user_id=USER)
    if chat_name != "chain":
        pin(chat, place.words(3))


WAYS = ("history", "chain", "middleware-sync", "middleware-exit", "node-exit", "nodes-async")


def take_turns(place: Place) -> None:
    """Say something in every way, keep notes and documents."""

    async def turns() -> None:
        for name in WAYS:
            await talk(place, name)

    asyncio.run(turns())
    scope: dict[str, Any] = {"user_id": USER, "session_id": WAYS[0]}
    for level in ("session", "project", "global"):
        place.notes.add(place.words(10), level=level, tags=["codes"], **scope)
    if isinstance(place.notes.store, JsonStore):
        place.notes.store.flush()
    one = Document(place.words(15), metadata={"title": place.words(5)})
    place.recall.add_documents([one], **scope)
    place.recall.add_documents([Document(place.words(5))], user_id=USER)
    place.recall.index()


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
            for cell in (cell for row in connection.execute(select(table)) for cell in row):
                is_binary = isinstance(cell, (bytes, memoryview))
                yield bytes(cell) if is_binary else str(cell).encode()
    engine.dispose()


def files_of(folder: Path) -> Iterator[bytes]:
    """Yield every file below a folder, with its name.

    Behind the numbers in two files of Chroma is unused memory of the process, whatever was in it
    (chroma-core/chroma#7688): pieces of words, too. Of them only whole canaries are looked for.
    """
    for file in folder.rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        if file.name in {"data_level0.bin", "length.bin"}:
            data = " ".join(CANARY.findall(data.decode(errors="replace"))).encode()
        yield file.name.encode() + b"\0" + data


def found_in(kept: Iterator[bytes]) -> set[str]:
    """Return all canaries, and pieces of canaries, that are kept; terms are in lower case."""
    found: set[str] = set()
    for data in kept:
        for plain in readable(data):
            found.update(map(bytes.decode, re.findall(rb"canary[-0-9a-f]*", plain.lower())))
    return found


def found_by_search(place: Place, planted: list[str]) -> set[str]:
    """Return the canaries in whatever a search, a listing or a checkpoint gives."""
    answers: list[object] = [place.notes.list(user_id=USER)]
    saver = TokenMemorySaver(place.store)
    for name in place.store.sessions(user_id=USER):
        scope: dict[str, Any] = {"session_id": name, "user_id": USER}
        for canary in planted[:: len(planted) // 3]:
            answers += place.recall.search(canary, **scope)
            answers += place.notes.search(canary, **scope)
        answers += place.recall.history_search("codes|redacted", **scope, include_superseded=True)
        answers += place.store.export_session(name, user_id=USER)
        answers += saver.list({"configurable": {"thread_id": name, "user_id": USER}})
    assert len(answers) > 100
    return found_in(repr(answer).encode() for answer in answers)


def rebuild(case: str, url: str, folder: str) -> None:
    """Make recall's index again."""
    place = Place(case, url, Path(folder))
    place.recall.rebuild()
    place.close()


@pytest.mark.parametrize("case", CASES)
def test_no_canary_is_found_after_a_redaction(
    case: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    is_sqlite = "sqlite" in case
    url = f"sqlite:///{folder}/memory.db" if is_sqlite else request.getfixturevalue("postgres")
    place = Place(case, url, folder)
    take_turns(place)
    planted = set(place.planted)
    assert len(planted) > 400
    assert planted <= found_in(cells_of(url)) | found_in(files_of(folder)), "planted and found"
    assert found_in(iter(place.requests()))

    redact: Callable[..., Any] = place.memory.redact if is_sqlite else place.store.redact
    own_store = {"store": place.store} if is_sqlite else {}
    receipt = redact(CANARY, **CASES[case], **own_store)
    assert receipt.counts.keys() >= {"messages", "documents", "states", "notes"}
    assert len(receipt.unreached) == (not is_sqlite)  # old versions of its rows

    assert found_in(files_of(folder)) == set(), "while the store is open, with its -wal"
    for known in (place, None):  # the same process, and a new one
        later = known or Place(case, url, folder)
        later.is_planting = False
        take_turns(later)
        requests = later.requests()
        assert len(requests) >= len(WAYS)
        assert found_in(iter(requests)) == set()
        assert found_by_search(later, sorted(planted)) == set()
        later.close()
    finished([start(rebuild, case, url, str(folder))])
    assert found_in(cells_of(url)) == set()
    assert found_in(files_of(folder)) == set()
