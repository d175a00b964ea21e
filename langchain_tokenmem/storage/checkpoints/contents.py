"""The rows of contents: messages outside of the transcript, and long lists of references.

References are stored as ranges: a chat of any length is one of them. A list that does not come
down to a few is cut into chunks, each stored once by what it says, so that a longer list shares
all but the last with the shorter one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, insert, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints.codec import Codec
from langchain_tokenmem.storage.checkpoints.groups import Group, read_group, save_group
from langchain_tokenmem.storage.checkpoints.rows import SEALED, checked
from langchain_tokenmem.storage.checkpoints.shapes import from_ranges, to_ranges
from langchain_tokenmem.storage.checkpoints.spaces import Space
from langchain_tokenmem.storage.checkpoints.tables import contents
from langchain_tokenmem.storage.database.statements import Statement

_AT_ONCE = 500
"""Values in one query; old versions of SQLite take 999 variables."""

_LONGEST = 512
"""Characters of ranges that stand in a checkpoint; more are cut into chunks."""

_CHUNK = 256
"""References in a chunk."""

_SHORTEST = 48
"""Characters of a chunk that is worth a row of its own."""

_NAMES = SEALED[contents.name]
_HERE = contents.c.group_id == bindparam("b_group_id")
_WANTED: BindParameter[Any] = bindparam("wanted", expanding=True)
_INSERT = Statement(insert(contents))
_BY_DIGEST = Statement(select(contents).where(_HERE, contents.c.digest.in_(_WANTED)))
_BY_NUMBER = Statement(select(contents).where(_HERE, contents.c.number.in_(_WANTED)))
_NUMBERS = Statement(select(contents.c.number).where(_HERE, contents.c.number.in_(_WANTED)))


def by_digest(
    connection: Connection, codec: Codec, group_id: int, digests: Sequence[bytes]
) -> dict[bytes, dict[str, Any]]:
    """Return the rows with these digests that there are, checked."""
    found = {}
    for start in range(0, len(digests), _AT_ONCE):
        names = {"b_group_id": group_id, "wanted": list(digests[start : start + _AT_ONCE])}
        for row in _BY_DIGEST.all(connection, names):
            found[row["digest"]] = checked(codec, _NAMES, row)
    return found


def by_number(
    connection: Connection, codec: Codec, group_id: int, numbers: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rows by number, checked.

    Raises:
        CorruptStoreError: When one is damaged or missing.
    """
    found = []
    for start in range(0, len(numbers), _AT_ONCE):
        names = {"b_group_id": group_id, "wanted": list(numbers[start : start + _AT_ONCE])}
        found += [checked(codec, _NAMES, row) for row in _BY_NUMBER.all(connection, names)]
    if {row["number"] for row in found} != set(numbers):
        raise CorruptStoreError(
            f"{len(set(numbers))} messages should be there, {len(found)} were found"
        )
    return found


def are_there(connection: Connection, group_id: int, numbers: Sequence[int]) -> bool:
    """Return whether rows are still there: retention may have removed them."""
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
        names = {"b_group_id": group_id, "wanted": some}
        if len(_NUMBERS.all(connection, names)) != len(set(some)):
            return False
    return True


class Adder:
    """Adds rows of contents in one transaction; `finish` writes them.

    Args:
        connection: In a transaction that writes.
        codec: Seals them.
        space: A namespace of the session that they belong to.
    """

    def __init__(self, connection: Connection, codec: Codec, space: Space) -> None:
        self._connection = connection
        self._codec = codec
        self._space = space
        self._group: Group | None = None
        self._added: list[dict[str, Any]] = []

    def hold(self) -> Group:
        """Return the session, which is nobody else's until the transaction ends.

        Whoever needs its transcript, too, holds this first: two runs of a sub-graph share both, and
        would wait for one another.
        """
        if self._group is None:
            self._group = read_group(
                self._connection, self._codec, self._space.thread_id, self._space.group_id
            )
        return self._group

    def add(self, digest: bytes, seq: int | None, body: bytes | None) -> dict[str, Any]:
        """Add a row, and return it with its number."""
        group = self.hold()
        number = group.last_number + 1
        self._group = replace(group, last_number=number)
        row = dict(zip(_NAMES, (self._space.group_id, number, digest, seq, body), strict=True))
        self._added.append({**row, "seal": self._codec.seal(row.values())})
        return row

    def finish(self) -> None:
        """Write what was added."""
        if self._group is not None and self._added:
            _INSERT.run_all(self._connection, self._added)
            save_group(self._connection, self._codec, self._group)


def as_text(
    connection: Connection, codec: Codec, space: Space, numbers: Sequence[int], ranges: str
) -> str:
    """Return references as they are stored: ranges, and `#` with a number for a chunk of them.

    Args:
        connection: In a transaction that writes.
        codec: Seals the chunks.
        space: Whose references they are.
        numbers: The references.
        ranges: The same as ranges.
    """
    if len(ranges) <= _LONGEST:
        return ranges
    parts = [to_ranges(numbers[start : start + _CHUNK]) for start in range(0, len(numbers), _CHUNK)]
    digests = {
        text: codec.text_digest(text)
        for text in parts[: len(numbers) // _CHUNK]
        if len(text) >= _SHORTEST
    }
    rows = by_digest(connection, codec, space.group_id, sorted(digests.values()))
    adder = Adder(connection, codec, space)
    for text, digest in digests.items():
        if digest not in rows:
            rows[digest] = adder.add(digest, None, codec.pack(text))
    adder.finish()
    return ",".join(
        f"#{rows[digests[text]]['number']}" if text in digests else text for text in parts
    )


def chunks_in(text: str) -> list[int]:
    """Return the numbers of the chunks in stored references."""
    if "#" not in text:
        return []
    return [int(part[1:]) for part in text.split(",") if part.startswith("#")]


def as_numbers(connection: Connection, codec: Codec, group_id: int, text: str) -> list[int]:
    """Return the references that `as_text` was given.

    Raises:
        CorruptStoreError: When a chunk of them is damaged or missing.
    """
    chunks = chunks_in(text)
    if not chunks:
        return from_ranges(text)
    rows = by_number(connection, codec, group_id, sorted(set(chunks)))
    said = {f"#{row['number']}": str(codec.unpack(row["body"])) for row in rows}
    return from_ranges(",".join(said.get(part, part) for part in text.split(",")))
