"""Fuzzed and forged rows: a typed error or the right state, and nothing is ever executed."""

from __future__ import annotations

import importlib
import os
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from savers import at, put

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.tables import SEALED

FUZZED = int(os.environ.get("TOKENMEM_FUZZED", "10000"))
TAMPERED = 100
KEY = b"a secret of thirty-two bytes....".ljust(32, b".")
ERROR = "error"


def build(saver: Any, thread: str) -> None:
    """Fill a small thread that has everything: large and small values, writes, a fork."""
    said = [
        HumanMessage(f"{thread} asks", id=f"{thread}h"),
        AIMessage(f"{thread} says", id=f"{thread}a"),
    ]
    large = {"text": f"{thread} " * 200, "about": said[0]}
    values = {"messages": said[:1], "n": 1, "large": large, "odd": [HumanMessage("no id")]}
    root = put(saver, at(thread), values, dict.fromkeys(values, "1.0"), run_id="r")
    saver.put_writes(root, [("messages", said[1:]), ("delta", 1)], "task", "path")
    then = {"messages": said, "n": 2}
    put(saver, root, then, dict.fromkeys(then, "2.0"))


def questions(saver: Any, thread: str) -> list[Callable[[], Any]]:
    """Return the ways to read a thread."""
    return [
        lambda: saver.get_tuple(at(thread)),
        lambda: list(saver.list(at(thread))),
        lambda: saver.get_delta_channel_history(config=at(thread), channels=["delta", "large"]),
    ]


def answer(question: Callable[[], Any]) -> Any:
    """Ask; a refusal is one answer among others."""
    try:
        return question()
    except StoreError:
        return ERROR


def ask(saver: Any, thread: str) -> list[Any]:
    return [answer(question) for question in questions(saver, thread)]


class Rows:
    """The rows of a store's file, to be changed behind its back and put back."""

    def __init__(self, path: Path) -> None:
        self.raw = sqlite3.connect(path, isolation_level=None, timeout=60)
        self.raw.execute("PRAGMA synchronous = OFF")
        self.rows: list[tuple[str, dict[str, Any]]] = []
        for table in [*SEALED, "tokenmem_messages", "tokenmem_sessions"]:
            cursor = self.raw.execute(f"SELECT * FROM {table}")  # noqa: S608
            names = [column[0] for column in cursor.description]
            self.rows += [(table, dict(zip(names, row, strict=True))) for row in cursor]

    def remove(self, table: str, row: dict[str, Any]) -> None:
        given = " AND ".join(f"{name} IS ?" for name in row)
        self.raw.execute(f"DELETE FROM {table} WHERE {given}", tuple(row.values()))  # noqa: S608

    def insert(self, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(row))
        self.raw.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",  # noqa: S608
            tuple(row.values()),
        )

    def replace(self, table: str, row: dict[str, Any], other: dict[str, Any]) -> bool:
        """Put another row in a row's place; False when the database itself does not take it."""
        self.raw.execute("BEGIN")
        self.remove(table, row)
        try:
            self.insert(table, other)
        except (sqlite3.IntegrityError, OverflowError):
            self.raw.execute("ROLLBACK")
            return False
        self.raw.execute("COMMIT")
        return True


def fuzzed(value: Any, chosen: random.Random) -> Any:
    """Return something else of about the same kind."""
    if isinstance(value, int):
        return chosen.choice([value + 1, value - 1, -value, 0, 2**62, None, str(value), 1.5])
    if value is None:
        return chosen.choice([0, "", b"x", "None"])
    if not value:
        return chosen.choice(["x", b"x", None, 0])
    data = value if isinstance(value, bytes) else value.encode()
    place = chosen.randrange(len(data))
    flipped = bytes([data[place] ^ (1 << chosen.randrange(7))])
    made = chosen.choice(
        [
            data[:place] + flipped + data[place + 1 :],
            data[:place],
            data + data[place:],
            data[:place] + chosen.randbytes(8) + data[place:],
            chosen.randbytes(len(data)),
            ormsgpack.packb({"a": [1, 2, "x"]}),
        ]
    )
    return made if isinstance(value, bytes) else made.decode("utf-8", "replace")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_ten_thousand_fuzzed_rows(path: Path) -> None:
    chosen = random.Random(15)
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    with TranscriptStore(f"sqlite:///{path}") as store:
        for thread in ("ann", "bob"):
            build(TokenMemorySaver(store), thread)
        right = ask(TokenMemorySaver(store), "ann")
        assert ERROR not in right
        rows = Rows(path)
        for _ in range(FUZZED):
            table, row = chosen.choice(rows.rows)
            column = chosen.choice(list(row))
            other = {**row, column: fuzzed(row[column], chosen)}
            numbers_itself = column in {"session_number", "namespace_id"} and other[column] is None
            if other == row or numbers_itself or not rows.replace(table, row, other):
                tally["not taken"] += 1
                continue
            # A new saver: what one remembers would hide what the rows say.
            which = chosen.randrange(len(right))
            found = answer(questions(TokenMemorySaver(store), "ann")[which])
            tally["refused" if found == ERROR else "no matter"] += 1
            if found != ERROR and found != right[which]:
                wrong.append(f"{table}.{column}: {row[column]!r:.80} -> {other[column]!r:.80}")
            assert rows.replace(table, other, row)
        assert ask(TokenMemorySaver(store), "ann") == right
    print(f"\n{FUZZED} fuzzed rows: {dict(tally)}; silently wrong: {len(wrong)}")
    assert not wrong, "\n".join(sorted(set(wrong))[:20])
    assert tally["refused"] > FUZZED / 10


# --- forged on purpose

PACKED = {
    "tokenmem_checkpoints": "checkpoint",
    "tokenmem_checkpoint_values": "value",
    "tokenmem_checkpoint_writes": "value",
    "tokenmem_checkpoint_messages": "message",
}
"""Tables with the column that holds what was packed."""


def resealed(table: str, row: dict[str, Any], codec: Codec) -> dict[str, Any]:
    """Give a row the seal that somebody without the key can make."""
    made = {**row, "seal": codec.seal(row[name] for name in SEALED[table])}
    if "write_count_seal" in row:
        place = (row["namespace_id"], row["checkpoint_key"], row["write_count"])
        made["write_count_seal"] = codec.seal(place)
    return made


def forgeries(rows: Rows, codec: Codec, chosen: random.Random) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a writer without the key can do to a row: table, row, and what comes for it."""
    mine = [(table, row) for table, row in rows.rows if table in PACKED]
    while True:
        table, row = chosen.choice(mine)
        others = [one for name, one in mine if name == table and one is not row]
        body = PACKED[table]
        kind = chosen.choice(["words", "moved", "gone", "renamed"])
        if kind == "words" and row[body]:
            forged = codec.pack(["forged", {"n": 3}])
            yield table, row, resealed(table, {**row, body: forged}, codec)
        elif kind == "moved" and others:
            # Sealed by us, but in another place.
            other = chosen.choice(others)
            taken = {body: other[body], "seal": other["seal"]}
            if other[body] != row[body]:
                yield table, row, {**row, **taken}
        elif kind == "gone":
            yield table, row, None
        elif kind == "renamed":
            key = SEALED[table][1]
            name = f"{row[key]}0" if isinstance(row[key], str) else row[key] + 50
            yield table, row, resealed(table, {**row, key: name}, codec)


def test_a_hundred_tampered_rows(path: Path) -> None:
    chosen = random.Random(7)
    tally: Counter[str] = Counter()
    with TranscriptStore(f"sqlite:///{path}") as store:
        build(TokenMemorySaver(store, key=KEY), "ann")
        right = ask(TokenMemorySaver(store, key=KEY), "ann")
        assert ERROR not in right
        rows = Rows(path)
        forged = forgeries(rows, Codec(JsonPlusSerializer(), None), chosen)
        for _ in range(TAMPERED):
            table, row, other = next(forged)
            if other is None:
                rows.remove(table, row)
            else:
                assert rows.replace(table, row, other)
            found = ask(TokenMemorySaver(store, key=KEY), "ann")
            tally["refused" if ERROR in found else "no matter"] += 1
            for told, expected in zip(found, right, strict=True):
                right_or_refused = told == ERROR or told == expected  # noqa: PLR1714
                assert right_or_refused, f"{table}: {row} -> {other}"
            if other is not None:
                rows.remove(table, other)
            rows.insert(table, row)
        assert ask(TokenMemorySaver(store, key=KEY), "ann") == right
        assert ask(TokenMemorySaver(store, key=KEY[::-1]), "ann") == [ERROR] * 3
        assert ask(TokenMemorySaver(store), "ann") == [ERROR] * 3
    print(f"\n{TAMPERED} tampered rows: {dict(tally)}")
    assert tally["refused"] > TAMPERED / 2


GADGET = """
import pathlib
pathlib.Path(__file__).with_suffix(".ran").write_text("imported")
class Gadget:
    def __init__(self, argument):
        pathlib.Path(__file__).with_suffix(".ran").write_text("made")
    def get_secret_value(self):
        return "argument"
"""


@pytest.mark.parametrize("saver_type", [TokenMemorySaver, SqliteSaver])
def test_a_type_that_is_not_allowed_is_refused_without_importing_its_module(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saver_type: type
) -> None:
    """The payload is sealed as it should be: who wrote it had no key to get past."""
    name = f"gadget_{saver_type.__name__.lower()}"
    (tmp_path / f"{name}.py").write_text(GADGET)
    monkeypatch.syspath_prepend(str(tmp_path))
    loose = JsonPlusSerializer(allowed_msgpack_modules=True)
    gadget = importlib.import_module(name).Gadget("x")
    ran = tmp_path / f"{name}.ran"

    def forget() -> None:
        sys.modules.pop(name)
        ran.unlink()

    values = {"a": {"deep": [gadget]}}
    if saver_type is SqliteSaver:
        stock = SqliteSaver(sqlite3.connect(path, check_same_thread=False), serde=loose)
        put(stock, at("t"), values, {"a": "1.0"})
        forget()
        stock.get_tuple(at("t"))
        assert ran.read_text() == "made", "the stock saver runs it: the payload is a real one"
        return
    with TranscriptStore(f"sqlite:///{path}") as store:
        writer = TokenMemorySaver(store, serde=loose)
        put(writer, at("t"), values, {"a": "1.0"})
        writer.put_writes(put(writer, at("u")), [("a", gadget)], "t")
        put(writer, at("fine"), {"a": 1}, {"a": "1.0"})
        forget()
        saver = TokenMemorySaver(store)
        for thread in ("t", "u"):
            with pytest.raises(StoreError, match="Gadget") as refused:
                saver.get_tuple(at(thread))
            assert f"'{thread}'" in str(refused.value)
        found = saver.get_tuple(at("fine"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 1}
        assert name not in sys.modules
        assert not ran.exists()


def test_pickle_is_refused_when_storing_and_when_loading(path: Path) -> None:
    with TranscriptStore(f"sqlite:///{path}") as store:
        with pytest.raises(ConfigurationError, match="pickle"):
            TokenMemorySaver(store, serde=JsonPlusSerializer(pickle_fallback=True))
        with pytest.raises(ConfigurationError):
            put(TokenMemorySaver(store), at("t"), {"a": lambda: 1}, {"a": "1.0"})
        assert TokenMemorySaver(store).get_tuple(at("t")) is None
        codec = Codec(JsonPlusSerializer(pickle_fallback=False), None)
        with pytest.raises(StoreError):
            codec.unpack(b"-pickle\0cposix\nsystem\n(S'true'\ntR.")
        with pytest.raises(StoreError):
            codec.unpack(b'-json\0{"lc": 2, "type": "constructor", "id": ["os", "system"]}')


def test_an_unencrypted_row_is_refused_where_rows_are_encrypted(path: Path) -> None:
    class Cipher:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "x", bytes(one ^ 0x5A for one in plaintext)

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            return bytes(one ^ 0x5A for one in ciphertext)

    sealed = EncryptedSerializer(Cipher(), JsonPlusSerializer(allowed_msgpack_modules=None))
    with TranscriptStore(f"sqlite:///{path}") as store:
        saver = TokenMemorySaver(store, serde=sealed)
        build(saver, "ann")
        assert ERROR not in ask(saver, "ann")
        data = b"".join(one.read_bytes() for one in path.parent.glob("memory.db*"))
        assert b"ann asks" not in data
        build(TokenMemorySaver(store), "bob")
        assert ask(TokenMemorySaver(store, serde=sealed), "bob") == [ERROR] * 3
