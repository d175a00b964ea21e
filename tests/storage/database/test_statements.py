"""Statements that the driver runs say the same as those that SQLAlchemy runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import bindparam, delete, func, insert, select, update

from langchain_tokenmem.errors import CorruptStoreError, StoreError
from langchain_tokenmem.storage.database import statements
from langchain_tokenmem.storage.database.database import Database
from langchain_tokenmem.storage.database.statements import Statement
from langchain_tokenmem.storage.database.tables import facts
from langchain_tokenmem.storage.schema_versions import SCHEMA

INSERT = Statement(insert(facts))
NAMED = Statement(
    select(facts)
    .where(facts.c.name.in_(bindparam("names", expanding=True)), facts.c.number > 0)
    .order_by(facts.c.name)
)
RENUMBER = Statement(update(facts).where(facts.c.name == bindparam("b_name")))
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


def both_ways(monkeypatch, run):
    """Return what `run` gives when the driver runs a statement, and when SQLAlchemy does."""
    by_driver = run()
    monkeypatch.setattr(statements, "sqlite_driver", lambda _connection: None)
    by_sqlalchemy = run()
    monkeypatch.undo()
    return by_driver, by_sqlalchemy


@pytest.mark.slow
@given(st.dictionaries(names, st.integers(1, 2**40), max_size=6), st.lists(names, max_size=6))
def test_both_find_and_change_the_same(numbers, others):
    def run():
        database = Database("sqlite://", SCHEMA)
        with database.writing("A test") as connection:
            connection.execute(delete(facts))
            rows = [{"name": name, "number": number} for name, number in numbers.items()]
            if rows:
                INSERT.run_all(connection, rows)
            changed = [
                RENUMBER.run(connection, {"b_name": name, "number": 7}) for name in sorted(others)
            ]
            found = NAMED.all(connection, {"names": sorted({*numbers, *others})})
            first = NAMED.first(connection, {"names": sorted(others)})
        database.close()
        return changed, [dict(row) for row in found], first and dict(first)

    with pytest.MonkeyPatch.context() as monkeypatch:
        by_driver, by_sqlalchemy = both_ways(monkeypatch, run)
    assert by_driver == by_sqlalchemy
    assert [row["name"] for row in by_driver[1]] == sorted(numbers)


def test_a_list_takes_any_number_of_values():
    with Database("sqlite://", SCHEMA).writing("A test") as connection:
        assert NAMED.all(connection, {"names": []}) == []
        assert NAMED.first(connection, {"names": ["schema_version"]})["number"] >= 1
        assert len(NAMED.all(connection, {"names": ["schema_version", "shape", "none"]})) == 2


def test_what_the_driver_says_is_said_in_our_words_and_nothing_is_kept():
    database = Database("sqlite://", SCHEMA)
    rows = [{"name": "one", "number": 1}, {"name": "one", "number": 2}]
    with (
        pytest.raises(StoreError, match="A test: the database could not do it"),
        database.writing("A test") as connection,
    ):
        INSERT.run_all(connection, rows)
    with database.reading("A test") as connection:
        assert connection.execute(select(func.count()).where(facts.c.name == "one")).scalar() == 0


def test_an_error_that_is_held_holds_no_old_picture_of_the_file(tmp_path):
    database, other = (Database(f"sqlite:///{tmp_path}/memory.db", SCHEMA) for _ in range(2))
    with database.writing("A test") as connection:
        INSERT.run(connection, {"name": "broken", "number": 1})
        # Not UTF-8: SQLite finds the row, and its driver cannot read it.
        connection.exec_driver_sql(
            "UPDATE tokenmem_facts SET number = CAST(x'ff' AS TEXT) WHERE name = 'broken'"
        )
    with (
        pytest.raises(CorruptStoreError) as held,
        database.reading("A test") as connection,
    ):
        NAMED.all(connection, {"names": ["broken"]})
    with other.writing("A test") as connection:
        INSERT.run(connection, {"name": "later", "number": 2})
    with database.reading("A test") as connection:
        assert NAMED.all(connection, {"names": ["later"]}), held
    with database.writing("A test") as connection:
        assert RENUMBER.run(connection, {"b_name": "later", "number": 7}) == 1, held
    other.close()
    database.close()
