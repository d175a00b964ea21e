"""Settings of a session and of a user: call, then session, then user, then memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import text

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemory,
    TokenMemoryChatHistory,
    TranscriptStore,
)
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, ScopeError

TALK = [HumanMessage("We decided to use SQLite because it is simple."), AIMessage("Fine.")]


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as store:
        yield store


def history(store, session="s", user="u", budget=None, **keywords):
    memory = TokenMemory(TokenBudget(9_000), **keywords)
    return TokenMemoryChatHistory(session, memory=memory, store=store, user_id=user, budget=budget)


def window(one):
    return one.usage().max_tokens


def limit(tokens):
    return TokenMemory(tokens).limit_of({})


def test_call_beats_session_beats_user_beats_memory(store):
    assert window(history(store)) == limit(9_000)
    store.set_settings(user_id="u", budget=8_000)
    assert window(history(store)) == limit(8_000)
    store.set_settings(session_id="s", user_id="u", budget=TokenBudget(7_000))
    assert window(history(store)) == limit(7_000)
    assert window(history(store, budget=TokenBudget(6_000))) == limit(6_000)
    assert window(history(store, session="other")) == limit(8_000)
    assert window(history(store, session="third", user="v")) == limit(9_000)


def test_none_takes_a_setting_back_and_what_is_left_out_stays(store):
    store.set_settings(session_id="s", budget=7_000, summarizer="extractive")
    store.set_settings(session_id="s", budget=None)
    assert store.settings("s") == SessionSettings(summarizer="extractive")
    store.set_settings(session_id="s", summarizer=None)
    assert store.settings("s") == SessionSettings()


def test_a_budget_of_a_session_stays_with_its_other_settings(store):
    store.set_settings(session_id="s", mode="code")
    store.set_budget("s", TokenBudget(7_000))
    assert store.settings("s") == SessionSettings(budget=TokenBudget(7_000), mode="code")
    assert store.state("s").budget == TokenBudget(7_000)


def notes_in(one, question="Which database?"):
    one.add_messages([*TALK, HumanMessage(question)])
    return "\n".join(str(message.content) for message in one.messages)


def test_a_mode_of_a_user_and_of_a_session(store):
    store.set_settings(user_id="u", mode="reasoning")
    assert "#1 use SQLite" in notes_in(history(store))
    store.set_settings(session_id="t", user_id="u", mode="")
    assert "#1 use SQLite" not in notes_in(history(store, session="t"))


def test_the_mode_that_is_set_last_holds(store):
    one = history(store)
    one.set_mode("code")
    store.set_settings(session_id="s", user_id="u", mode="reasoning")
    assert "#1 use SQLite" in notes_in(one)
    one.set_mode(None)
    assert "#1 use SQLite" not in notes_in(history(store), "And now?")


def test_a_mode_or_summarizer_that_is_none_is_told_and_the_memorys_is_used(store, caplog):
    store.set_settings(session_id="s", mode="nobody", summarizer="nobody:model")
    assert "#1 use SQLite" in notes_in(history(store, mode="reasoning"))
    assert "'nobody'" in caplog.text
    assert "'nobody:model'" in caplog.text


def test_a_summarizer_by_name_is_made_once_for_a_memory():
    memory, settings = TokenMemory(), SessionSettings(summarizer="extractive")
    first, second = memory.with_settings(settings), memory.with_settings(settings)
    assert first.summarizer is second.summarizer
    assert first.summarizer is not memory.summarizer


def test_a_memory_that_is_off_recalls_summarizes_and_notes_nothing(store):
    recall = Recall(store)
    said = [HumanMessage("The parcel is blue."), AIMessage("It is.")]
    history(store, session="old").add_messages(said)
    keywords = {"recall": recall, "recall_scope": "user", "mode": "reasoning"}
    assert "parcel is blue" in notes_in(history(store, **keywords), "Which parcel is blue?")
    store.set_settings(user_id="u", enabled=False)
    off = history(store, session="off", **keywords)
    shown = notes_in(off, "Which parcel is blue?")
    assert "The parcel is blue." not in shown
    assert "#1" not in shown
    off.add_messages([AIMessage("word " * 20_000), HumanMessage("And?")])
    assert off.usage().input_tokens <= off.usage().max_tokens
    assert store.state("off").state["summary"] is None
    store.set_settings(session_id="off", enabled=True)
    assert store.settings("off", user_id="u").enabled is True


async def test_async_calls_have_the_same_settings(store):
    await store.aset_settings(user_id="u", budget=8_000, mode="reasoning")
    one = history(store)
    await one.aadd_messages([*TALK, HumanMessage("Which database?")])
    assert "#1 use SQLite" in str(await one.aget_messages())
    assert (await store.asettings("s")).budget == TokenBudget(8_000)


def test_erasing_a_user_erases_their_settings(store):
    store.set_settings(user_id="u", budget=8_000)
    assert store.erase(user_id="u")["user_settings"] == 1
    assert store.settings(user_id="u") == SessionSettings()


@pytest.mark.parametrize(
    ("error", "keywords"),
    [
        (ScopeError, {"budget": 8_000}),
        (ScopeError, {"session_id": "s", "user_id": "v", "budget": 8_000}),
        (ScopeError, {"user_id": " ", "budget": 8_000}),
        (ConfigurationError, {"user_id": "u", "budget": "8k"}),
        (ConfigurationError, {"user_id": "u", "mode": 1}),
        (ConfigurationError, {"user_id": "u", "enabled": "no"}),
        (ConfigurationError, {"user_id": "u", "summarizer": " "}),
        (ConfigurationError, {"user_id": "u", "max_wait_s": 1}),
    ],
)
def test_settings_that_cannot_be_are_refused(store, error, keywords):
    store.add("s", TALK, user_id="u")
    with pytest.raises(error):
        store.set_settings(**keywords)
    assert store.settings("s") == SessionSettings()


def test_damaged_settings_of_a_user_are_an_error(tmp_path):
    with TranscriptStore(tmp_path / "memory.db") as store:
        store.set_settings(user_id="u", budget=8_000)
        with store.database.writing("test") as connection:
            connection.execute(text("UPDATE tokenmem_user_settings SET settings = '{'"))
        with pytest.raises(CorruptStoreError, match="User 'u'"):
            store.settings(user_id="u")


SOME = st.builds(
    SessionSettings,
    budget=st.none() | st.integers(300, 90_000).map(TokenBudget),
    mode=st.none() | st.text(max_size=5),
    summarizer=st.none() | st.just("extractive"),
    enabled=st.none() | st.booleans(),
)


@given(SOME, SOME)
def test_settings_are_never_lost_on_the_way_through_the_store(own, of_user):
    assert SessionSettings.loaded(own.stored()) == own
    both = own.over(of_user)
    for name in ("budget", "mode", "summarizer", "enabled"):
        first, second = getattr(own, name), getattr(of_user, name)
        assert getattr(both, name) == (second if first is None else first)
