"""The vector table: no text is embedded twice by the same model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from langchain_tokenmem.core.search_units import MOST_PARTS, ScopePartitions, pack_unit, unpack_unit
from langchain_tokenmem.storage.database import (
    Database,
    change_with,
    in_pairs,
    lock_threads,
    rows_with,
)
from langchain_tokenmem.storage.sessions import Session, find_by_id, save
from langchain_tokenmem.storage.tables import (
    fact,
    facts_named,
    messages,
    sessions,
    set_fact,
    vectors,
)

_ABOUT = "The index of recall"

_PREFIX = "index:"
"""Prefix of the facts that are properties of an index."""

_COLLECTION = f"{_PREFIX}collection"
"""Fact with the collection of the place where vectors are looked up."""


_KEEP = insert(vectors).on_conflict_do_update(
    index_elements=[*vectors.primary_key], set_={"vector": insert(vectors).excluded.vector}
)


class VectorTable:
    """The part of a search index that stores vectors, and properties of the index.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def writing_to(self, number: int) -> Iterator[tuple[Connection, Session | None]]:
        """Open a writing transaction, and lock a session until it ends."""
        with self._database.reading(_ABOUT) as connection:
            known = find_by_id(connection, number)
        with self._database.writing(_ABOUT) as connection:
            if known is not None:
                lock_threads(connection, [known.thread_id])
            yield connection, find_by_id(connection, number)

    def put_vectors(
        self, model: str, given: Mapping[int, bytes], *, unless_edited: tuple[int, int]
    ) -> None:
        """Store vectors of a session by unit: float32, little-endian.

        Vectors of texts that were erased or edited while they were being embedded are not stored.

        Args:
            model: Fingerprint of the model.
            given: The vectors.
            unless_edited: The session, and its number of edits when its texts were read.
        """
        number, edits = unless_edited
        with self.writing_to(number) as (connection, session):
            if session is None or session.edits != edits:
                return
            seqs = {unpack_unit(unit)[1] for unit in given}
            own = select(messages.c.seq).where(messages.c.session == number)
            there = {row.seq for row in rows_with(connection, own, messages.c.seq, seqs)}
            rows = [
                {"session": number, "model": model, "unit": unit, "vector": vector}
                for unit, vector in given.items()
                if unpack_unit(unit)[1] in there
            ]
            if rows:
                connection.execute(_KEEP, rows)

    def acknowledge_vectors(
        self,
        number: int,
        done_to: int,
        *,
        start: int,
        edits: int,
        collection: str | None = None,
    ) -> int:
        """Mark a session's vectors as indexed up to a message.

        Nothing is marked if an earlier message now has to be indexed again, the session was edited
        meanwhile, or another collection has been set.

        Args:
            number: The session.
            done_to: The last message that is indexed.
            start: The first message of the batch.
            edits: The session's number of edits when its texts were read.
            collection: Name of the collection that has the vectors.

        Returns:
            The message with which to continue.
        """
        with self.writing_to(number) as (connection, session):
            if session is None or (collection and not _is_set(connection, collection)):
                return start
            begin = min(start, session.vectors_from)
            if begin < start or session.edits != edits:
                return begin
            save(connection, session, vectors_from=done_to + 1)
            return done_to + 1

    def delete_vectors(self, *, keep: str) -> None:
        """Delete the vectors of every model but one."""
        with self._database.writing(_ABOUT) as connection:
            connection.execute(delete(vectors).where(vectors.c.model != keep))

    @contextmanager
    def reading_vectors(self) -> Iterator[VectorsReader]:
        """Open a consistent view of all vectors and properties."""
        with self._database.reading(_ABOUT) as connection:
            yield VectorsReader(connection)

    def start_collection(self, collection: Mapping[str, Any]) -> None:
        """Set another collection (JSON with `name`), and mark all vectors as not indexed."""
        with self._database.writing(_ABOUT) as connection:
            set_fact(connection, _COLLECTION, collection)
            connection.execute(update(sessions).values(vectors_from=sessions.c.first_seq))

    def update_collection(self, collection: Mapping[str, Any]) -> None:
        """Replace the description of the collection, unless another one has been set."""
        with self._database.writing(_ABOUT) as connection:
            if _is_set(connection, collection["name"]):
                set_fact(connection, _COLLECTION, collection)

    def properties(self, prefix: str) -> dict[str, Any]:
        """Return the properties whose names begin with a prefix, by name."""
        with self._database.reading(_ABOUT) as connection:
            found = facts_named(connection, _PREFIX + prefix)
            return {name.removeprefix(_PREFIX): value for name, value in found.items()}

    def delete_properties(self, prefix: str) -> None:
        """Delete the properties whose names begin with a prefix."""
        with self._database.writing(_ABOUT) as connection:
            for name in facts_named(connection, _PREFIX + prefix):
                set_fact(connection, name, None)

    def update_property(self, name: str, change: Callable[[Any], Any]) -> None:
        """Replace a property by `change` of it; None deletes it."""
        with self._database.writing(_ABOUT) as connection:
            known = fact(connection, _PREFIX + name, lock=True)
            set_fact(connection, _PREFIX + name, change(known))


def _is_set(connection: Connection, collection: str) -> bool:
    """Lock the present collection, and return whether it has this name."""
    found = fact(connection, _COLLECTION, lock=True)
    return found is not None and found["name"] == collection


def delete_vectors(connection: Connection, number: int, seqs: Iterable[int]) -> None:
    """Delete the vectors of some messages of a session."""
    own = delete(vectors).where(vectors.c.session == number)
    places = [pack_unit(number, seq) // MOST_PARTS for seq in seqs]
    change_with(connection, own, vectors.c.unit // MOST_PARTS, places)


class VectorsReader:
    """The vectors of a scope, or of the whole store.

    Args:
        connection: In a transaction.
        within: The sessions that the scope covers; None for all.
    """

    def __init__(self, connection: Connection, within: ScopePartitions | None = None) -> None:
        self._connection = connection
        self._within = within

    def vectors(self, model: str, units: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors in scope of some units, by unit."""
        pairs = [(unpack_unit(unit)[0], unit) for unit in units]
        own, values = in_pairs(self._connection, vectors.c.session, vectors.c.unit, pairs)
        query = select(vectors.c.unit, vectors.c.vector).where(*self._of_model(model), own)
        rows = self._connection.execute(query, values)
        return {unit: bytes(vector) for unit, vector in rows}

    def vector_units(
        self, model: str, *, partition: int | None = None, limit: int | None = None
    ) -> list[int]:
        """Return the units that have a vector, ascending: all, or those of one session."""
        query = select(vectors.c.unit).where(*self._of_model(model))
        if partition is not None:
            query = query.where(vectors.c.session == partition)
        query = query.order_by(vectors.c.session, vectors.c.unit).limit(limit)
        return list(self._connection.execute(query).scalars())

    def count_vectors(self, model: str, most: int | None = None) -> int:
        """Return how many vectors there are, counting up to `most`.

        Rows are large, and counting all of them would read them all.
        """
        some = select(vectors.c.unit).where(*self._of_model(model)).limit(most).subquery()
        return self._connection.execute(select(func.count()).select_from(some)).scalar_one()

    def vector_pages(self, model: str, size: int) -> Iterator[dict[int, bytes]]:
        """Yield all vectors in the order of their units, `size` rows at a time."""
        query = select(vectors.c.unit, vectors.c.vector).where(*self._of_model(model))
        query = query.order_by(vectors.c.session, vectors.c.unit)
        rows = self._connection.execute(query, execution_options={"yield_per": size})
        for page in rows.partitions():
            yield {unit: bytes(vector) for unit, vector in page}

    def collection(self) -> Any:
        """Return the present collection (JSON) as it was set, or None."""
        return fact(self._connection, _COLLECTION)

    def _of_model(self, model: str) -> list[Any]:
        own: list[Any] = [vectors.c.model == model]
        if self._within is not None:
            own.append(vectors.c.session.in_(self._within.partitions))
        return own
