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
from langchain_tokenmem.storage.transcripts.encoded_message import as_bytes

_NAMESPACES = "tokenmem_checkpoint_spaces"
_NOT_COVERED = {"checksum", "seal", "writes", "writes_seal"}
"""Columns that no checksum of a row is over."""
_OTHER_CHECKSUMS = {"tokenmem_vectors", "tokenmem_facts"}


def rewrite_rows(connection: Connection, version: int) -> None:
    """Rewrite the rows of an older version: checksums, and the hashes that find namespaces.

    A row with a wrong checksum keeps it: whoever reads it notices.

    Args:
        connection: In the transaction of the upgrade.
        version: The version of the rows, 1 or 2.

    Raises:
        CorruptStoreError: When the row of a checkpoint namespace is damaged, or its seal was made
            with a key, without which no other can be made.
    """
    names = {name for name in inspect(connection).get_table_names() if name.startswith("tokenmem_")}
    changed = names - _OTHER_CHECKSUMS if version == 1 else names & {_NAMESPACES}
    as_bytes_then = _bytes_in_1 if version == 1 else as_bytes
    for name in sorted(changed):
        table = Table(name, MetaData(), autoload_with=connection)
        covered = _covered(table)
        for row in connection.execute(select(table)).mappings().all() if covered else ():
            columns = dict(row)
            if name == _NAMESPACES:
                columns["fingerprint"] = "".join(
                    _checksum_of(row[part].encode()) for part in ("thread_key", "ns_key")
                )
            for column, others in covered.items():
                hash_of = _checksum_of if column == "checksum" else _seal_of
                if row[column] == hash_of(as_bytes_then(row[other] for other in others)):
                    columns[column] = hash_of(as_bytes(columns[other] for other in others))
                elif name == _NAMESPACES:
                    raise _unreadable(row["thread_id"])
            if columns != row:
                key = [column == row[column.name] for column in table.primary_key]
                connection.execute(table.update().where(*key).values(columns))


def _covered(table: Table) -> dict[str, list[str]]:
    """Return the checksums in a row, and the columns that each is over."""
    names = [column.name for column in table.columns]
    rest = [name for name in names if name not in _NOT_COVERED]
    own = {"checksum": rest, "seal": rest, "writes_seal": ["space_id", "checkpoint_key", "writes"]}
    return {column: others for column, others in own.items() if column in names}


def _unreadable(thread_id: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"Thread {thread_id!r}: its row is damaged, or sealed with a key, and cannot be upgraded. "
        f"Nothing was changed. Copy the threads with the version that wrote them, or restore a "
        f"backup."
    )


def _checksum_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _seal_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, person=b"tokenmem-row").digest()


def _bytes_in_1(values: Iterable[Any]) -> bytes:
    parts = []
    for value in values:
        text = value if type(value) is bytes else str(value).encode("utf-8", "backslashreplace")
        parts.append(b"%s:%d:%s" % (type(value).__name__.encode(), len(text), text))
    return b"".join(parts)
