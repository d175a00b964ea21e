"""Histories of langchain-community: SQL tables and files, with the real library."""

from __future__ import annotations

import sys
import warnings

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from sqlalchemy import create_engine, event

from langchain_tokenmem.adapters.importing import sql_histories
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage import import_sources as sources
from langchain_tokenmem.storage.import_sources import history_engine

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_community.chat_message_histories import (
        SQLChatMessageHistory,
    )

CALL = {"name": "f", "args": {"n": 1}, "id": "c", "type": "tool_call"}
SAID = [
    HumanMessage("hi", id="h"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("r", tool_call_id="c", artifact={"rows": [1]}),
    AIMessage("done"),
]


@pytest.fixture
def engine(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/old.db")
    yield engine
    engine.dispose()


def said_in(store, session_id="s"):
    return [message.model_copy(update={"id": None}) for message in store.messages(session_id)]


def without_ids(messages):
    return [message.model_copy(update={"id": None}) for message in messages]


@pytest.mark.slow
def test_a_sql_history_is_read_from_its_table_in_pages(store, engine, monkeypatch):
    monkeypatch.setattr(sources, "PAGE", 3)
    monkeypatch.setattr(SQLChatMessageHistory, "messages", property(lambda self: 1 / 0))
    histories = {name: SQLChatMessageHistory(name, connection=engine) for name in ("s", "other")}
    for _ in range(2):  # the rows of two sessions alternate
        for history in histories.values():
            history.add_messages(SAID)
    queries = []
    event.listen(engine, "before_cursor_execute", lambda *given: queries.append(given[2]))
    assert store.import_history(histories["s"], "s").added == 7  # one has an id, and came twice
    assert len([query for query in queries if query.startswith("SELECT")]) == 3
    assert said_in(store) == without_ids([*SAID, *SAID[1:]])
    histories["s"].add_message(AIMessage("more"))
    assert store.import_history(histories["s"], "s").added == 1
    assert store.import_history(histories["s"], "s").added == 0


def test_every_session_of_a_table_is_found_and_nothing_is_made(store, tmp_path, engine):
    for name in ("b", "a"):
        SQLChatMessageHistory(name, table_name="talks", connection=engine).add_messages(SAID)
    with history_engine(f"sqlite:///{tmp_path}/old.db") as opened:
        found = dict(sql_histories(opened, "talks"))
        assert [*found] == ["b", "a"]
        assert store.import_history(found["a"], "a").added == 4
        with pytest.raises(ConfigurationError, match=r"no table 'message_store'.*talks"):
            list(sql_histories(opened))
        with pytest.raises(ConfigurationError, match="no session 'c'"):
            list(sql_histories(opened, "talks", "c"))


def test_without_langchain_community_it_is_said_what_to_install(engine, monkeypatch):
    SQLChatMessageHistory("s", connection=engine).add_messages(SAID)
    monkeypatch.setitem(sys.modules, "langchain_community.chat_message_histories", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'langchain-tokenmem\[community\]'"):
        list(sql_histories(engine))
