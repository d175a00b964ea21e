"""What is erased, redacted or expired is gone, and nothing else; an export can be imported."""

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem import (
    Notebook,
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.notes import SqlStore
from tests.contract.chats import Way, bytes_of, fill, long_turns, texts, ways

CODE = "QUOKKA-4929"
MONTH = timedelta(days=30)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_an_erased_session_leaves_no_byte_and_the_others_stay(tmp_path: Any):
    with TranscriptStore(tmp_path / "memory.db", shared=True) as store:
        fill(store, "gone", "ann", CODE)
        store.add("stays", [HumanMessage("Hello.")], user_id="ann")
        with pytest.raises(ScopeError):
            store.erase()
        assert CODE.lower().encode() in bytes_of(tmp_path)
        store.erase("gone")
        assert store.sessions() == ["stays"]
        assert Recall(store).search(CODE, session_id="stays", user_id="ann", scope="user") == []
        assert store.state("gone").state is None
    assert CODE.lower().encode() not in bytes_of(tmp_path)


@ways(both=True)
async def test_an_erased_conversation_begins_anew(way: Way):
    chat = way.chat(TokenMemory(1_000, background=False))
    await chat.ask(f"My code is {CODE}.")
    await chat.talk(6)
    chat.store.erase(chat.setting.thread)
    chat = chat.reopened()
    assert CODE not in texts(await chat.last("What is my code?"))
    assert len(chat.said()) == 2


@pytest.mark.slow
@ways(both=True)
async def test_a_summary_that_was_being_written_is_erased_too(way: Way):
    is_called, is_erased = Event(), Event()

    def summarizer(_messages: list[Any]) -> str:
        is_called.set()
        is_erased.wait(60)
        return f"- The code is {CODE}."

    budget = TokenBudget(2_000, compact_at=0.6, summarize_at=0.6)
    chat = way.chat(TokenMemory(budget, summarizer=summarizer))
    for _ in range(60):
        if not is_called.is_set():
            await chat.ask(f"My code is {CODE}. {'word ' * 60}")
    assert is_called.wait(30)
    chat.store.erase(chat.setting.thread)
    is_erased.set()
    chat.memory.close()
    assert CODE not in texts(await chat.last("What is my code?"))
    assert len(chat.said()) == 2


def old_sessions(store: TranscriptStore, days: range, newest: datetime) -> None:
    for day in days:
        store.add(f"s{day:02}", [HumanMessage("hi")], now=newest - timedelta(days=day))


def test_sessions_that_were_not_used_expire_whole(store: TranscriptStore):
    old_sessions(store, range(0, 60, 10), NOW)
    store.keep_session("s50")
    store.add("s30", [HumanMessage("I am back.")], now=NOW - timedelta(days=1))
    assert store.expire(MONTH, now=NOW, dry_run=True).expired == ("s40",)
    assert len(store.sessions()) == 6
    report = store.expire(MONTH, now=NOW)
    assert (report.expired, report.kept) == (("s40",), 1)
    assert store.sessions() == ["s00", "s10", "s20", "s30", "s50"]
    with pytest.raises(ConfigurationError):
        store.expire(timedelta(0), now=NOW)


def use(path: Any, is_done: Callable[[TranscriptStore], bool]) -> list[str]:
    """Say something in a store that expires by itself, wait for its run, return what is left."""
    policy = {"inactive_for": MONTH, "expire_every": timedelta(hours=1)}
    with TranscriptStore(path, **policy, shared=True) as store:
        store.add("new", [HumanMessage("hi")])
        end = time.monotonic() + 30
        while not is_done(store) and time.monotonic() < end:
            time.sleep(0.01)
        return store.sessions()


@pytest.mark.parametrize("was_ahead", [False, True])
def test_a_store_in_use_expires_sessions_by_itself(tmp_path: Any, *, was_ahead: bool):
    """Also after a run by a clock that was ahead."""
    path = tmp_path / "memory.db"
    with TranscriptStore(path, shared=True) as store:
        old_sessions(store, range(0, 60, 20), datetime.now(UTC))
        if was_ahead:  # the store notes when it was done last
            store.expire(timedelta(days=3_650), now=datetime.now(UTC) + timedelta(days=90))
    left = use(path, lambda store: "s40" not in store.sessions())
    assert left == ["new", "s00", "s20"]


def test_a_clock_that_is_ahead_of_what_was_stored_deletes_nothing_by_itself(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
):
    """Everything is 90 days old for this process, as for one whose clock is 90 days ahead."""
    path = tmp_path / "memory.db"
    with TranscriptStore(path, shared=True) as store:
        old_sessions(store, range(20), datetime.now(UTC) - timedelta(days=90))
    with caplog.at_level(logging.WARNING):
        left = use(path, lambda store: "tokenmem expire" in caplog.text or not store.count("s00"))
    assert len(left) == 21
    with TranscriptStore(path, inactive_for=MONTH, shared=True) as store:
        assert len(store.expire().expired) == 20, "who is told to does it"


def test_a_lease_of_a_clock_that_was_ahead_stops_no_summary(
    store: TranscriptStore, monkeypatch: pytest.MonkeyPatch
):
    store.add("s", [HumanMessage("hi")])
    with monkeypatch.context() as patch:
        real = time.time
        patch.setattr(time, "time", lambda: real() + 86_400)
        assert store.lease("s", "it died", 120)
    assert store.lease("s", "the next one", 120)
    assert not store.lease("s", "a third one", 120), "a lease of a right clock holds"


def test_an_export_makes_the_same_session_elsewhere(store: TranscriptStore):
    call = {"name": "pay", "args": {"n": 1}, "id": "c"}
    said = [
        HumanMessage("one", id="m1"),
        AIMessage("", id="m2", tool_calls=[call]),
        ToolMessage("ok", tool_call_id="c", id="m3", artifact={"x": [1]}, status="error"),
    ]
    store.add("s", said, user_id="ann")
    store.add("s", [HumanMessage("two", id="m1")])
    memory = TokenMemory(1_000)
    TokenMemoryChatHistory("s", user_id="ann", memory=memory, store=store).pin("Gate 7.")
    lines = [*store.export_session("s")]
    with TranscriptStore("sqlite://", shared=True) as other:
        other.import_session(lines, user_id="ann")
        assert other.messages("s", include_superseded=True) == store.messages(
            "s", include_superseded=True
        )
        assert other.state("s").state == store.state("s").state
        assert other.sessions(user_id="ann") == ["s"]
        other.import_session(lines, user_id="ann")
        assert [*other.export_session("s")] == lines


def test_erasing_a_user_takes_all_that_is_theirs_and_nothing_of_another(store: TranscriptStore):
    notes = Notebook(SqlStore(store))
    for user in ("ann", "bob"):
        for number in (1, 2):
            said = [HumanMessage(f"My code is {CODE}.")]
            store.add(f"{user}-{number}", said, user_id=user)
        notes.add(f"The code of {user} is {CODE}.", level="global", user_id=user)
    store.erase(user_id="ann")
    assert store.sessions() == ["bob-1", "bob-2"]
    assert notes.list(user_id="ann") == []
    assert [note.content for note in notes.list(user_id="bob")] == [f"The code of bob is {CODE}."]
    found = Recall(store).search(CODE, session_id="bob-1", user_id="bob", scope="user")
    assert found
    assert {hit.session_id for hit in found} <= {"bob-1", "bob-2"}


def test_what_another_session_has_quoted_is_erased_with_it(store: TranscriptStore):
    memory = TokenMemory(8_000, recall=Recall(store, scope="user"))
    store.add("gone", [HumanMessage(f"The code of the harbour gate is {CODE}.")], user_id="ann")
    history = TokenMemoryChatHistory("stays", user_id="ann", memory=memory, store=store)
    history.add_messages([HumanMessage("What is the code of the harbour gate?")])
    assert CODE in texts(history.messages)
    store.erase("gone")
    assert CODE not in texts(history.messages)
    again = TokenMemoryChatHistory("stays", user_id="ann", memory=memory, store=store)
    assert CODE not in texts(again.messages)


@pytest.mark.slow
@ways(both=True)
async def test_redacted_words_are_in_no_later_request(way: Way):
    chat = way.chat(lambda store: TokenMemory(1_000, background=False, recall=Recall(store)))
    await chat.ask(f"My code is {CODE}.")
    await chat.talk(6)
    await chat.ask(f"Once more: {CODE}, and the parcel is in Oslo.")
    receipt = chat.memory.redact(CODE, store=chat.store, session_id=chat.setting.thread)
    assert receipt.counts
    assert CODE not in json.dumps([message.content for message in chat.said()])
    later = chat.reopened()
    requests = [
        request
        for question in ("What is my code?", *long_turns(3), "Where is the parcel?")
        for request in await later.ask(question)
    ]
    assert [request for request in requests if CODE in texts(request)] == []
    assert "the parcel is in Oslo" in texts(requests[0])
    assert chat.store.redact(CODE, everywhere=True).counts == {}


def test_redacted_words_are_in_no_byte_and_other_words_stay(tmp_path: Any):
    with TranscriptStore(tmp_path / "memory.db", shared=True) as store:
        fill(store, "s", "ann", CODE)
        count = store.count("s")
        receipt = TokenMemory(1_000).redact(CODE, store=store, everywhere=True)
        assert {"messages", "documents", "states", "notes"} <= receipt.counts.keys()
        assert receipt.unreached == ()
        assert store.count("s") == count
        assert Recall(store).search("invoice", session_id="s", user_id="ann")
    assert CODE.lower().encode() not in bytes_of(tmp_path)
