"""What `TokenMemorySaver` promises beyond the contract of a checkpointer."""

from __future__ import annotations

import shutil
import sqlite3
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import CorruptStoreError, ScopeError, StoreError
from tests.adapters.integrations import at, put, read, texts, thread


def chat(saver):
    def answer(given):
        # With an id of its own: LangGraph gives it one while a pending write may be under way.
        size = len(given["messages"])
        return {"messages": AIMessage(f"answer {size}", id=f"answer-{uuid4()}")}

    builder = StateGraph(MessagesState).add_node("model", answer).add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def say(graph, words, name="t", **more):
    return graph.invoke({"messages": HumanMessage(words)}, thread(name, **more))


def change(path, sql):
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(sql)
    raw.close()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "saver.db"


@pytest.fixture
def on_file(file):
    with TranscriptStore(file) as store:
        yield store


# Messages


def test_a_message_that_a_turn_has_stored_keeps_its_only_wording(store):
    saver, said = TokenMemorySaver(store), HumanMessage("Where is it?", id="m")
    first = put(saver, at(), "1", {"messages": []})
    saver.put_writes(first, [("messages", said)], "task")
    store.add("t", [said])
    put(saver, first, "2", {"messages": [said]}, 2)
    assert [(row.number, row.message) for row in store.rows("t", include_superseded=True)] == [
        (2, said)
    ]
    assert read(saver)["messages"] == [said]


# Threads, loops, processes


def test_nothing_is_remembered_of_what_a_backup_replaced(file, tmp_path):
    def said(word):
        return [HumanMessage(f"{word} {n}", id=f"{word}{n}") for n in range(40)]

    saver = TokenMemorySaver(TranscriptStore(file))
    first = put(saver, at(), "1", {"messages": said("kept")[:1]})
    saver.store.close()
    shutil.copy(file, tmp_path / "backup.db")
    put(saver, first, "2", {"messages": said("lost")}, 2)
    saver.store.close()
    shutil.copy(tmp_path / "backup.db", file)
    put(saver, first, "2", {"messages": said("new")}, 2)
    for reader in (saver, TokenMemorySaver(TranscriptStore(file))):
        assert read(reader)["messages"] == said("new")


# Ids, filters and secrets


def test_threads_with_odd_ids_and_their_subgraphs_stay_apart(store):
    saver = TokenMemorySaver(store)
    names = ["a", "../a", "a|b", "a:b", "A", "a ", "%", "x' OR '1'='1", "日本"]
    places = [(name, ns) for name in names for ns in ("", "child:1", "child:2|grand:3")]
    for name, ns in places:
        put(saver, at(name, ns=ns), "1", {"messages": [HumanMessage(f"{name} {ns}", id="same")]})
    for name, ns in places:
        assert texts(read(saver, at(name, ns=ns))["messages"]) == [f"{name} {ns}"]
    saver.delete_thread("a")
    assert store.messages("a") == []
    for name in names[1:]:
        assert texts(store.messages(name)) == [f"{name} "]
        assert len(list(saver.list({"configurable": {"thread_id": name}}))) == 3
    for bad in ("", " ", None, 1, "a\x1fchild", "a\x00b", "a\nb", "a\x85b"):
        with pytest.raises(ScopeError, match="thread_id"):
            saver.get_tuple(at(bad))


@pytest.fixture
def stock():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


METADATA = {
    "source": "loop",
    "user": {"name": "ann", "access-level": 3, "address": {"town": "Lisbon"}, "tags": ["a"]},
    "step": 1,
    "on": True,
    "none": None,
}
WANTED = [
    {"user.name": "ann"},
    {"user.access-level": 3, "source": "loop"},
    {"user.address.town": "Lisbon"},
    {"user.address": {"town": "Lisbon"}},
    {"user.tags": ["a"]},
    {"user.nobody": None},
    {"nothing.at.all": None},
    {"on": True, "none": None},
    {"user.name": "bob"},
    {"user.name.first": "ann"},
    {"user.address.town": None},
    {"user": "ann"},
    {"source.name": "loop"},
]


def test_a_metadata_filter_with_dots_is_a_path_as_for_sqlite_saver(store, stock):
    saver = TokenMemorySaver(store)
    for one in (saver, stock):
        put(one, at(), "1", **METADATA)
        put(one, at(), "2", source="input")
    for wanted in WANTED:
        found, right = (
            [each.checkpoint["id"] for each in one.list(at(), filter=wanted)]
            for one in (saver, stock)
        )
        assert found == right, wanted


def test_keys_and_values_of_a_filter_are_data_and_never_sql(store):
    saver = TokenMemorySaver(store)
    put(saver, at(), "1", user="ann")
    put(saver, at("u"), "1", user="bob", **{"x') OR 1=1 --": 1})
    for key in ("x') OR ('1'='1", "user' OR 1=1 --", "$.user", '"user"', "user\x00", "%", ""):
        assert list(saver.list(at(), filter={key: "ann"})) == []
    assert len(list(saver.list(at("u"), filter={"x') OR 1=1 --": 1}))) == 1
    for value in ("ann' OR '1'='1", None, ["ann"], {"$ne": 1}, True):
        assert list(saver.list(at(), filter={"user": value})) == []
    assert len(list(saver.list(at(), filter={"user": "ann"}))) == 1


def test_secrets_under_configurable_are_never_stored(on_file, file):
    saver = TokenMemorySaver(on_file, metadata_keys=["tenant"])
    secrets = {"api_key": "canary-1", "OPENAI_API_KEY": "canary-2", "session_token": "canary-3"}
    say(chat(saver), "hi", user_id="u", tenant="acme", **secrets)
    for found in saver.list(None):
        assert (found.metadata["user_id"], found.metadata["tenant"]) == ("u", "acme")
        assert "canary" not in repr(found)
    on_file.close()
    assert b"canary" not in file.read_bytes()


@pytest.mark.slow
def test_an_encrypting_serializer_leaves_no_words_in_clear_and_another_key_reads_nothing(file):
    mine, other = (
        EncryptedSerializer.from_pycryptodome_aes(key=key * 4) for key in (b"mine", b"else")
    )
    with TranscriptStore(file) as store:
        graph = chat(TokenMemorySaver(store, serde=mine))
        say(graph, "a very secret question")
        assert len(say(graph, "more")["messages"]) == 4
        assert store.messages("t") == []
        with pytest.raises(CorruptStoreError, match=r"Thread 't'.*give the cipher"):
            TokenMemorySaver(store, serde=other).get_tuple(thread())
    assert b"secret" not in file.read_bytes()


# Damage


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM tokenmem_messages WHERE seq = 2",
        "UPDATE tokenmem_messages SET message = replace(message, 'one', 'two')",
        "UPDATE tokenmem_checkpoints SET body = substr(body, 1, length(body) - 4)",
    ],
)
def test_damage_is_never_a_shorter_state_and_names_the_thread(on_file, file, loss):
    graph = chat(TokenMemorySaver(on_file))
    say(graph, "one", "bad")
    on_file.close()
    change(file, loss)
    say(graph, "one", "good")
    saver = TokenMemorySaver(on_file)
    with pytest.raises(StoreError, match="'bad'"):
        saver.get_tuple(thread("bad"))
    assert len(read(saver, thread("good"))["messages"]) == 2
    saver.delete_thread("bad")
    assert saver.get_tuple(thread("bad")) is None
