"""What `TokenMemorySaver` promises beyond the contract of a checkpointer."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tokenmem import Recall, TokenMemory, TokenMemorySaver, TranscriptStore
from langchain_tokenmem.errors import (
    ConfigurationError,
    CorruptStoreError,
    ScopeError,
    StoreError,
    ThreadConflictError,
)
from tests.adapters.integrations import at, graph_of, put, read, texts, thread


def answer(state):
    # It has an id: LangGraph would set one while a pending write may still be running.
    return {"messages": AIMessage(f"answer {len(state['messages'])}", id=str(uuid4()))}


def chat(saver, model=answer):
    return graph_of(model, saver=saver)


def say(graph, words, name="t", **more):
    return graph.invoke({"messages": [HumanMessage(words, id=str(uuid4()))]}, thread(name, **more))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "saver.db"


@pytest.fixture
def on_file(file):
    with TranscriptStore(file) as store:
        yield store


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
    for bad in ("", " ", None, "a\x1fchild", "a\x00b", "a\nb", "a\x85b"):
        with pytest.raises(ScopeError, match="thread_id"):
            saver.get_tuple(at(bad))


@pytest.fixture
def stock():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


USER = {"name": "ann", "access-level": 3, "address": {"town": "Lisbon"}, "tags": ["a"]}
WANTED = [
    *({"user.name": "ann"}, {"user.access-level": 3, "source": "loop"}, {"user.tags": ["a"]}),
    *({"user.address.town": "Lisbon"}, {"user.address": {"town": "Lisbon"}}, {"user": "ann"}),
    *({"user.missing": None}, {"on": True, "none": None}, {"user.name.first": "ann"}),
]


def test_a_metadata_filter_with_dots_is_a_path_as_for_sqlite_saver(store, stock):
    saver = TokenMemorySaver(store)
    for one in (saver, stock):
        put(one, at(), "1", user=USER, on=True, none=None)
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


# Retention


FACT = "The vault code is QUOKKA."


def with_sub_graph(saver, *, from_size=0):
    """Return a graph that hands over to a sub-graph once its list is longer than `from_size`."""
    graph = StateGraph(MessagesState).add_node("sub", chat(True)).add_node("model", answer)
    graph.add_conditional_edges(
        START, lambda state: "sub" if len(state["messages"]) > from_size else "model"
    )
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize(
    "given",
    [
        *({"on_conflict": "ignore"}, {"keep_last": 0}, {"keep_last": "3"}, {"keep_last": True}),
        *({"older_than": timedelta(0)}, {"older_than": timedelta.max}, {"older_than": 30}),
        *({"prune_every": 0}, {"keep_last": 1, "prune_every": "x"}),
    ],
)
def test_settings_that_cannot_work_are_refused(store, given):
    with pytest.raises(ConfigurationError):
        TokenMemorySaver(store, **given)


def test_what_cannot_be_pruned_so_deletes_nothing(store):
    saver = TokenMemorySaver(store)
    say(chat(saver), "hi")
    before = list(saver.list(thread()))
    with pytest.raises(ConfigurationError, match="keep_oldest"):
        saver.prune(["t"], strategy="keep_oldest")
    for takes_a_list in (saver.prune, saver.delete_for_runs):
        with pytest.raises(ConfigurationError, match="give a list"):
            takes_a_list("t")
    assert list(saver.list(thread())) == before


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
async def test_keep_last_bounds_a_thread_and_leaves_the_transcript(store, is_async):
    saver = TokenMemorySaver(store, keep_last=3, prune_every=3)
    graph = chat(saver)
    for turn in range(5):
        if is_async:
            await graph.ainvoke({"messages": [HumanMessage(f"question {turn}")]}, thread())
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        else:
            say(graph, f"question {turn}")
        assert len(list(saver.list(thread()))) <= 6
    assert len(store.messages("t")) == len(graph.get_state(thread()).values["messages"]) == 10


def test_deleted_runs_take_their_messages_along(tmp_path):
    with TranscriptStore(tmp_path / "saver.db") as store:
        saver, runs = TokenMemorySaver(store), [uuid4(), uuid4()]
        for number, run in enumerate(runs):
            values = {"other": [HumanMessage(f"of run {number}", id=f"m{number}")]}
            put(saver, at(), f"{number}", values, number, run_id=str(run))
        saver.delete_for_runs(runs[1:])
        assert texts(read(saver)["other"]) == ["of run 0"]
    raw = sqlite3.connect(tmp_path / "saver.db")
    assert raw.execute("SELECT count(*) FROM tokenmem_messages").fetchone() == (1,)
    raw.close()


# Deletion and copies


def test_the_transcript_of_a_thread_cannot_be_cleared_from_under_it(store):
    say(chat(TokenMemorySaver(store)), "hi")
    with pytest.raises(StoreError, match="delete_thread"):
        store.clear("t")
    assert store.count("t") == 2


def test_a_copy_goes_its_own_way_is_searched_and_belongs_to_the_same_user(store):
    saver, recall = TokenMemorySaver(store), Recall(store)
    graph = with_sub_graph(saver)
    say(graph, FACT, user_id="ann")
    saver.copy_thread("t", "copy")
    say(graph, "three", "copy", user_id="ann")
    assert texts(store.messages("t")) == [FACT, "answer 1"]
    assert texts(store.messages("copy"))[:3] == [FACT, "answer 1", "three"]
    assert recall.search("QUOKKA", session_id="copy", k=1)[0].session_id == "copy"
    with pytest.raises(ScopeError):
        store.messages("copy", user_id="bob")
    with pytest.raises(ConfigurationError, match="copy"):
        saver.copy_thread("copy", "copy")
    store.erase(user_id="ann")
    assert store.sessions() == []


# Sub-graphs and owners


def test_a_sub_graph_has_a_session_of_its_own_that_goes_with_its_thread(store):
    graph = with_sub_graph(TokenMemorySaver(store))
    say(graph, "hello", "THREAD")
    say(graph, "hello", "thread")
    *_, name, inside = store.sessions()
    assert (name, texts(store.messages(inside))) == ("thread", ["hello", "answer 1"])
    with pytest.raises(StoreError, match="its thread, 'thread', which deletes this one"):
        store.erase(session_id=inside)
    store.erase(session_id="thread")  # and not the one in capitals
    assert [one.partition("\x1f")[0] for one in store.sessions()] == ["THREAD", "THREAD"]
    assert len(say(graph, "again", "THREAD")["messages"]) == 4


def test_a_sub_graph_belongs_to_whom_its_thread_belongs(store):
    graph = with_sub_graph(TokenMemorySaver(store), from_size=2)
    say(graph, "I am Ann", user_id="ann")
    say(graph, "I am Bob", user_id="bob")
    assert store.erase(user_id="bob")["sessions"] == 0
    assert len(say(graph, "still here", user_id="ann")["messages"]) == 6
    assert store.erase(user_id="ann")["sessions"] == 2
    assert store.sessions() == []
    assert graph.get_state(thread()).values == {}


@pytest.mark.parametrize("restarts", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["erase", "delete", "expire"])
def test_a_thread_that_is_deleted_during_its_own_run_stays_deleted(tmp_path, how, restarts):
    url = f"sqlite:///{tmp_path}/memory.db"
    with TranscriptStore(url) as store, TranscriptStore(url) as elsewhere:

        def deleting(state):
            if state["messages"][-1].content == "delete it":
                if how == "erase":
                    TokenMemory().erase(elsewhere, session_id="t")
                elif how == "delete":
                    TokenMemorySaver(elsewhere).delete_thread("t")
                else:
                    later = datetime.now(UTC) + timedelta(days=9)
                    elsewhere.expire(timedelta(days=1), now=later)
                assert graph.get_state(thread("t")).values == {}
                if restarts:
                    say(graph, "fresh")
            return answer(state)

        graph = chat(TokenMemorySaver(store), deleting)
        say(graph, FACT)
        with pytest.raises(ThreadConflictError, match="was deleted with its thread"):
            say(graph, "delete it")
        anew = ["fresh", "answer 1"] if restarts else []
        assert [m.content for m in elsewhere.messages("t")] == anew
        said = [m.content for m in say(graph, "Hello")["messages"]]
        assert said == [*anew, "Hello", f"answer {len(anew) + 1}"]


def test_a_sub_graph_of_a_thread_that_was_deleted_stores_nothing(store):
    sub = chat(None)

    def deleting(state):
        TokenMemorySaver(store).delete_thread("t")
        return {"messages": sub.invoke(state)["messages"][-1]}

    graph = chat(TokenMemorySaver(store), deleting)
    with pytest.raises(ThreadConflictError):
        graph.invoke({"messages": [HumanMessage(FACT)]}, thread("t"), durability="sync")
    assert store.sessions() == []


WRITES = [("messages", [HumanMessage(FACT, id="h")])]


def test_writes_of_a_sub_graph_that_come_before_its_checkpoint_go_with_the_thread(store):
    saver = TokenMemorySaver(store)
    root = put(saver, at(), "1")
    inside = {
        "configurable": {**at("t", "2", "sub:1")["configurable"], "checkpoint_map": {"": "1"}}
    }
    saver.put_writes(inside, WRITES, "task-1")
    TokenMemorySaver(store).delete_thread("t")
    with pytest.raises(ThreadConflictError):
        saver.put_writes(inside, WRITES, "task-2")
    with pytest.raises(ThreadConflictError):
        saver.put_writes(root, WRITES, "task-3")
    assert store.sessions() == []


def test_writes_that_overtake_a_checkpoint_whose_thread_is_deleted_are_refused(
    tmp_path, monkeypatch
):
    url = f"sqlite:///{tmp_path}/memory.db"
    with TranscriptStore(url) as store, TranscriptStore(url) as elsewhere:
        saver = TokenMemorySaver(store)
        root = put(saver, at(), "1")

        def overtake():  # where the checkpoint waits for the database
            TokenMemorySaver(elsewhere).delete_thread("t")
            with pytest.raises(ThreadConflictError):
                saver.put_writes(at("t", "2"), WRITES, "task-1")

        monkeypatch.setattr(store.index, "make_ready", overtake)
        with pytest.raises(ThreadConflictError):
            put(saver, root, "2")
        assert elsewhere.sessions() == []


def test_pruned_checkpoints_are_not_a_deleted_thread(store):
    saver = TokenMemorySaver(store)

    def pruning(state):
        saver.prune(["t"], strategy="delete")
        return answer(state)

    graph = chat(saver, pruning)
    for words in ("one", "two"):
        assert say(graph, words)["messages"][-1].content.startswith("answer")
