"""Rewrites checksums and hashes in rows of schema versions 1 and 2 as version 3 computes them.

The names of tables and columns are those of version 3: they stay as they are here, whatever later
versions do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, MetaData, Table, inspect, select

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.transcripts.encoded_message import as_bytes, checksum

_NAMESPACES = "tokenmem_checkpoint_spaces"
_NOT_COVERED = {"checksum", "seal", "writes", "writes_seal"}
"""Columns that no checksum of a row is over."""
_OTHER_CHECKSUMS = {"tokenmem_vectors", "tokenmem_facts"}


def rewrite_rows(connection: Connection, version: int) -> None:
    """Rewrite the rows of an older version.

    A row with a wrong checksum keeps it: whoever reads it notices.

    Args:
        connection: In the transaction of the upgrade.
        version: The version of the rows, 1 or 2.

    Raises:
        CorruptStoreError: When the row of a checkpoint namespace is damaged, or its seal was made
            with a key, without which no other can be made.
    """
    names = set(inspect(connection).get_table_names())
    if version == 1:
        for name in sorted(names - _OTHER_CHECKSUMS):
            if name.startswith("tokenmem_"):
                _rewrite_checksums(connection, Table(name, MetaData(), autoload_with=connection))
    if _NAMESPACES in names:
        _rewrite_namespaces(connection, Table(_NAMESPACES, MetaData(), autoload_with=connection))


def _rewrite_checksums(connection: Connection, table: Table) -> None:
    names = [column.name for column in table.columns]
    covered: dict[str, list[str]] = {
        column: [name for name in names if name not in _NOT_COVERED]
        for column in ("checksum", "seal")
        if column in names
    }
    if "writes_seal" in names:
        covered["writes_seal"] = ["space_id", "checkpoint_key", "writes"]
    if not covered:
        return
    for row in connection.execute(select(table)).mappings().all():
        renewed: dict[str, str | bytes] = {}
        for column, others in covered.items():
            values = [row[name] for name in others]
            old = _bytes_in_1(values)
            if row[column] == hashlib.blake2b(old, digest_size=16).hexdigest():
                renewed[column] = checksum(values)
            elif row[column] == _sealed(old):
                renewed[column] = _seal(values)
        if renewed:
            key = [column == row[column.name] for column in table.primary_key]
            connection.execute(table.update().where(*key).values(renewed))


def _rewrite_namespaces(connection: Connection, table: Table) -> None:
    """Give the namespaces of threads the hashes by which version 3 finds them."""
    names = [column.name for column in table.columns if column.name != "seal"]
    for row in connection.execute(select(table)).mappings().all():
        if row["seal"] != _seal(row[name] for name in names):
            raise CorruptStoreError(
                f"Thread {row['thread_id']!r}: its row is damaged, or sealed with a key, and "
                f"cannot be upgraded. Nothing was changed. Copy the threads with the version "
                f"that wrote them, or restore a backup."
            )
        halves = (
            hashlib.blake2b(row[name].encode(), digest_size=16).hexdigest()
            for name in ("thread_key", "ns_key")
        )
        columns = {**row, "fingerprint": "".join(halves)}
        seal = _seal(columns[name] for name in names)
        mine = table.c.space_id == row["space_id"]
        renewed = {"fingerprint": columns["fingerprint"], "seal": seal}
        connection.execute(table.update().where(mine).values(renewed))


def _seal(values: Iterable[Any]) -> bytes:
    return _sealed(as_bytes(values))


def _sealed(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, person=b"tokenmem-row").digest()


def _bytes_in_1(values: Iterable[Any]) -> bytes:
    parts = []
    for value in values:
        text = value if type(value) is bytes else str(value).encode("utf-8", "backslashreplace")
        parts.append(b"%s:%d:%s" % (type(value).__name__.encode(), len(text), text))
    return b"".join(parts)
