"""Sessions, owners, states, and who may share a store."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import event

from langchain_tokenmem import TokenBudget, TranscriptStore
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    ScopeError,
)
from langchain_tokenmem.state import new_state
from langchain_tokenmem.storage.transcripts import message_rows
from tests.storage.samples import state, texts, turn

ODD_IDS = [
    "../x",
    "..\\x",
    "/etc/passwd",
    "x' OR '1'='1",
    'a"b',
    "a;DROP TABLE tokenmem_messages",
    "😀",
    "\\U0001f600",
    "a",
    "a\\x00b",
    "\\ud800",
    "%",
    "_",
    " a",
    "A",
    "1",
    "1.0",
    "1e0",
    "é",
    "e\u0301",
    "x" * 400,
    "#" + "x" * 399,
    "x" * 500,
    "😀" * 250,
]


@pytest.mark.slow
def test_odd_session_ids_neither_collide_nor_leave_the_database_file(file_store, path):
    for name in ODD_IDS:
        file_store.add(name, [HumanMessage(name, id=name)], user_id=name)
    assert file_store.sessions() == sorted(ODD_IDS)
    for name in ODD_IDS:
        assert texts(file_store.messages(name, user_id=name)) == [name]
        assert file_store.get(name, name).content == name
        assert file_store.sessions(user_id=name) == [name]
    assert {
        item.name.removesuffix("-wal").removesuffix("-shm") for item in path.parent.iterdir()
    } == {path.name}


@pytest.mark.parametrize("bad", ["", "  ", "\n", None, 1, b"s", ["s"]])
def test_ids_that_name_nothing_are_refused_everywhere(store, bad):
    for ask in (store.rows, store.messages, store.conversation, store.count, store.state):
        with pytest.raises(ScopeError, match="session_id"):
            ask(bad)
    for ask in (
        lambda: store.add(bad, [HumanMessage("x")]),
        lambda: store.last(bad, 3),
        lambda: store.get(bad, "x"),
        lambda: store.save_state(bad, new_state(), expected=0),
        lambda: store.set_budget(bad, None),
        lambda: store.clear(bad),
    ):
        with pytest.raises(ScopeError, match="session_id"):
            ask()
    assert store.sessions() == []


@pytest.mark.parametrize("bad", ["", " ", 7, b"u"])
def test_users_that_are_none_are_refused(store, bad):
    with pytest.raises(ScopeError, match="user_id"):
        store.add("s", [HumanMessage("x")], user_id=bad)
    with pytest.raises(ScopeError, match="user_id"):
        store.messages("s", user_id=bad)
    with pytest.raises(ScopeError, match="user_id"):
        store.sessions(user_id=bad)
    assert store.sessions() == []


def test_a_session_belongs_to_the_first_user_who_says_so(store):
    store.add("s", [HumanMessage("a")])
    store.add("s", [HumanMessage("b")], user_id="ann")
    store.add("t", turn(1), user_id="bob")
    for ask in (store.rows, store.messages, store.conversation):
        with pytest.raises(ScopeError, match="another user"):
            ask("s", user_id="bob")
    with pytest.raises(ScopeError, match="another user"):
        store.add("s", [HumanMessage("c")], user_id="bob")
    assert texts(store.messages("s", user_id="ann")) == ["a", "b"]
    assert store.sessions(user_id="ann") == ["s"]
    assert store.sessions(user_id="bob") == ["t"]
    assert store.sessions() == ["s", "t"]
    store.clear("s")
    assert store.sessions(user_id="ann") == ["s"]


def test_state_is_stored_by_compare_and_swap(store):
    store.add("s", turn(1))
    assert store.state("s").version == 0
    assert store.save_state("s", state("h1"), expected=0)
    assert not store.save_state("s", state("a1"), expected=0)
    stored = store.state("s")
    assert (stored.state, stored.version) == (state("h1"), 1)
    assert store.save_state("s", state("a1"), expected=1)
    assert store.state("s").state == state("a1")


def test_a_state_written_after_a_clear_is_refused(store):
    store.add("s", turn(1))
    version = store.state("s").version
    store.clear("s")
    assert not store.save_state("s", state("h1"), expected=version)
    assert store.state("s").state is None
    assert store.save_state("s", state("h1"), expected=store.state("s").version)


def test_a_late_state_makes_no_session(store):
    assert not store.save_state("s", state("x"), expected=3)
    assert store.sessions() == []
    assert store.clear("s") == 0


def test_a_state_of_any_text_comes_back(store):
    odd = state("x", "\ud800", text="\x00 \ud800 😀")
    store.save_state("s", odd, expected=0)
    assert store.state("s").state == odd


def test_budget_of_a_session(store):
    budget = TokenBudget(context_window=4_000, target=0.4)
    store.set_budget("s", budget)
    store.add("s", turn(1))
    assert store.state("s").budget == budget
    assert store.conversation("s")[0].budget == budget
    store.clear("s")
    assert store.state("s").budget == budget
    store.set_budget("s", None)
    assert store.state("s").budget is None
    with pytest.raises(ConfigurationError):
        store.set_budget("s", 4_000)


def test_a_conversation_reads_kept_pointer_and_tail_only(file_store, monkeypatch):
    file_store.add("s", [message for number in range(200) for message in turn(number)])
    file_store.save_state("s", state("a189", "h0", "h150"), expected=0)
    statements: list[str] = []
    fetched: list[int] = []

    @event.listens_for(file_store._database._open(), "after_cursor_execute")
    def _ran(connection, cursor, statement, parameters, context, many):
        statements.append(statement)

    real = message_rows._checked

    def counted(row, session):
        fetched.append(row["seq"])
        return real(row, session)

    monkeypatch.setattr(message_rows, "_checked", counted)
    stored, rows = file_store.conversation("s")
    assert [row.message.id for row in rows][:4] == ["h0", "h150", "a189", "h190"]
    assert len(rows) == 2 + 1 + 20
    assert stored.version == 1
    # The pointer's own row is read by its id and with the tail.
    assert len(fetched) == len(rows) + 1
    assert sum("tokenmem_messages" in statement for statement in statements) == 2


def test_a_pointer_to_an_unknown_message_shows_everything(store):
    store.add("s", turn(1))
    store.save_state("s", state("gone"), expected=0)
    assert texts([row.message for row in store.conversation("s")[1]]) == ["question 1", "answer 1"]


def test_unknown_sessions_are_empty(store):
    assert store.messages("s") == []
    assert store.conversation("s")[1] == []
    assert store.count("s") == 0
    assert store.get("s", "x") is None
    assert store.state("s").state is None


def test_get_knows_the_ids_of_its_own_session_only(store):
    store.add("s", turn(1))
    store.add("t", turn(2))
    assert store.get("s", "h1").content == "question 1"
    assert store.get("s", "h2") is None
    store.clear("s")
    assert store.get("s", "h1") is None


@pytest.mark.slow
def test_eight_threads_share_a_store_without_losing_a_message(store):
    def write(writer: int) -> None:
        for number in range(25):
            store.add(
                "s", [HumanMessage(f"{writer}-{number}"), AIMessage("ok", id=f"{writer}-{number}")]
            )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    rows = store.rows("s")
    assert [row.seq for row in rows] == list(range(1, 401))
    for writer in range(8):
        mine = [r.message.content for r in rows if str(r.message.content).startswith(f"{writer}-")]
        assert mine == [f"{writer}-{number}" for number in range(25)]


def test_event_loops_share_a_store(store):
    async def talk(name: str) -> None:
        await asyncio.gather(
            *(store.aadd("s", [HumanMessage(f"{name}{number}")]) for number in range(10))
        )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: asyncio.run(talk(name)), "abc"))
    assert sorted(texts(store.messages("s"))) == sorted(f"{n}{i}" for n in "abc" for i in range(10))


async def test_async_methods_do_what_their_twins_do(path):
    async with TranscriptStore(f"sqlite:///{path}") as store:
        assert await store.aadd("s", turn(1), user_id="ann") == ["h1", "a1"]
        assert await store.amessages("s", user_id="ann") == turn(1)
        assert await store.aclear("s") == 2
        assert await store.amessages("s") == []


def test_reopening_a_store_finds_everything_in_wal_mode(path):
    with TranscriptStore(f"sqlite:///{path}") as store:
        store.add("s", turn(1))
        store.close()
        store.add("s", turn(2))
    with TranscriptStore(f"sqlite:///{path}") as store:
        assert store.messages("s") == [*turn(1), *turn(2)]
        assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_batch_that_fails_stores_nothing(store):
    bad = HumanMessage("x", response_metadata={"tokenmem": {"created_at": "never"}})
    with pytest.raises(ConfigurationError):
        store.add("s", [*turn(1), bad])
    assert store.count("s") == 0
    assert store.sessions() == []


def test_a_damaged_value_in_the_list_of_sessions_is_noticed(file_store, path):
    file_store.add("s", turn(1), user_id="ann")
    raw = sqlite3.connect(path)
    raw.execute("UPDATE tokenmem_sessions SET user_id = 'bob'")
    raw.commit()
    raw.close()
    with pytest.raises(CorruptStoreError):
        file_store.sessions(user_id="ann")
