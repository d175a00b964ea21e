"""Settings of a call, a session and a user, in this order; then the memory's own."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import text

from langchain_tokenmem import (
    Recall,
    TokenBudget,
    TokenMemoryChatHistory,
    TokenMemorySaver,
    TranscriptStore,
)
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError, ScopeError
from tests.adapters.integrations import contents, thread
from tests.fakes import memory_of

DECIDED = "We decided to use SQLite because it is simple."
TALK = [HumanMessage(DECIDED), AIMessage("Fine.")]
LONG = [HumanMessage(f"{n}: " + "word " * 300) for n in range(12)]


def history(store, name="s", user="u", budget=None, **keywords):
    memory = memory_of(9_000, **keywords)
    return TokenMemoryChatHistory(name, memory=memory, store=store, user_id=user, budget=budget)


def limit(window):
    return memory_of(window).limit_of({})


def is_noted(request):
    return "#1 use SQLite" in str(request[-1].content)


# Histories and chains


def test_call_beats_session_beats_user_beats_memory(store):
    def window(**keywords):
        return history(store, **keywords).usage().max_tokens

    assert window() == limit(9_000)
    store.set_settings(user_id="u", budget=8_000)
    assert window() == limit(8_000)
    store.set_settings(session_id="s", user_id="u", budget=TokenBudget(7_000))
    assert window() == limit(7_000)
    assert window(budget=TokenBudget(6_000)) == limit(6_000)
    assert window(name="other") == limit(8_000)
    assert window(name="third", user="v") == limit(9_000)


async def test_none_takes_a_setting_back_and_what_is_left_out_stays(store):
    await store.aset_settings(session_id="s", budget=7_000, summarizer="extractive")
    store.set_settings(session_id="s", budget=None)
    store.set_budget("s", TokenBudget(6_000))
    found = await store.asettings("s")
    assert (found.budget, found.summarizer, found.mode) == (TokenBudget(6_000), "extractive", None)
    store.set_settings(session_id="s", summarizer=None)
    assert store.settings("s").summarizer is None


def test_a_memory_that_is_off_recalls_summarizes_and_notes_nothing(store):
    history(store, "old").add_messages([HumanMessage("The parcel is blue."), AIMessage("It is.")])
    keywords, shown = {"recall": Recall(store, scope="user"), "mode": "reasoning"}, []
    for name in ("on", "off"):
        store.set_settings(user_id="u", enabled=name == "on")
        one = history(store, name, **keywords)
        one.add_messages([*TALK, HumanMessage("Which parcel is blue?")])
        shown.append(["The parcel is blue." in contents(one.messages), is_noted(one.messages)])
    assert shown == [[True, True], [False, False]]
    one.add_messages([AIMessage("word " * 20_000), HumanMessage("And?")])
    assert one.usage().input_tokens <= one.usage().max_tokens
    assert store.state("off").state["summary"] is None


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
    assert store.settings("s") == store.settings("new")


# Graphs and agents


def request_after(built, messages):
    """Return the messages that the model was called with at last."""
    model, app = built
    app.invoke({"messages": messages}, thread(user_id="ann"))
    return model.requests[-1]


@pytest.mark.slow
def test_a_thread_that_is_off_summarizes_and_notes_nothing(door, store):
    memory = memory_of(3_000, recall=Recall(store), mode="reasoning")
    store.set_settings(session_id="t", user_id="ann", enabled=False)
    built = door(memory, TokenMemorySaver(store))
    request = request_after(built, [HumanMessage(DECIDED), *LONG, HumanMessage("Which database?")])
    assert not is_noted(request)
    assert memory.count(request).tokens <= limit(3_000)
    assert memory.summarizer.requests == []
    store.set_settings(session_id="t", user_id="ann", enabled=True)
    request_after(built, [*LONG, HumanMessage("Which database?")])
    memory.close()
    assert memory.summarizer.requests


@pytest.mark.slow
def test_a_summarizer_by_name_writes_the_entries_of_the_thread(door, store):
    memory = memory_of(3_000)
    store.set_settings(session_id="t", user_id="ann", summarizer="extractive")
    request = request_after(door(memory, TokenMemorySaver(store)), [*LONG, HumanMessage("And?")])
    assert "conversation_summary" in str(request)
    assert memory.summarizer.requests == []


@pytest.mark.slow
def test_settings_that_cannot_be_read_are_an_error_and_take_no_thread_down(door, tmp_path, caplog):
    with TranscriptStore(tmp_path / "memory.db") as store:
        store.set_settings(user_id="ann", budget=2_000)
        with store.database.writing("test") as connection:
            connection.execute(text("UPDATE tokenmem_user_settings SET settings = '{'"))
        with pytest.raises(CorruptStoreError, match="User 'ann'"):
            store.settings(user_id="ann")
        memory = memory_of(8_000)
        request = request_after(door(memory, TokenMemorySaver(store)), LONG)
        assert memory.count(request).tokens > 4_000
    assert "its own settings are not used" in caplog.text
