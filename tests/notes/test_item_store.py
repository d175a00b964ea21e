"""What LangGraph's `BaseStore` promises, of the files and of the database."""

import json
import tempfile

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from sqlalchemy import text

from langchain_tokenmem import TranscriptStore
from langchain_tokenmem.core.thread_names import notes_of_session, notes_of_user
from langchain_tokenmem.errors import ConfigurationError, CorruptStoreError
from langchain_tokenmem.notes import JsonStore, SqlStore


@pytest.fixture
def store(own_store):
    return own_store


LABELS = st.sampled_from(["a", "b", "ab", "a_", "A", "ü", "%", "~", "x" * 120])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k.1", "", "ü", "k" * 500])
# No 1: LangGraph's store takes it for True in a filter; to JSON, and to ours, it is not.
VALUES = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([3, 2, "1", None, True]))
PATHS = st.lists(st.one_of(LABELS, st.just("*")), min_size=1, max_size=3).map(tuple)
NONE = st.none()
WRITES = st.tuples(NAMESPACES, KEYS, st.one_of(NONE, VALUES)).map(lambda given: PutOp(*given))
MATCHES = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATHS)
READS = st.one_of(
    st.tuples(NAMESPACES, KEYS).map(lambda given: GetOp(*given)),
    st.tuples(
        st.one_of(st.just(()), NAMESPACES),
        st.one_of(NONE, VALUES, st.just({"x": {"$ne": 2}})),
        st.just(100),
    ).map(lambda given: SearchOp(*given)),
    st.builds(
        ListNamespacesOp,
        st.lists(MATCHES, max_size=2).map(tuple),
        st.one_of(NONE, st.integers(1, 3)),
        st.sampled_from([1, 2, 3, 100]),
        st.integers(0, 2),
    ),
)
BATCHES = st.lists(st.lists(st.one_of(WRITES, WRITES, READS), max_size=5), max_size=4)


class Reference(InMemoryStore):
    """LangGraph's store in memory, but that it lists namespaces that hold nothing."""

    def _handle_list_namespaces(self, op):
        for namespace in [one for one, items in self._data.items() if not items]:
            del self._data[namespace]
        return super()._handle_list_namespaces(op)


def plain(result):
    """Return a result without times; the order of a search is checked elsewhere."""
    if not result or (isinstance(result, list) and isinstance(result[0], tuple)):
        return result
    found = result if isinstance(result, list) else [result]
    return sorted((one.namespace, one.key, json.dumps(one.value, sort_keys=True)) for one in found)


def answers(store, batch):
    return [plain(result) for result in store.batch(batch)]


@pytest.mark.slow
@given(BATCHES)
def test_files_and_database_never_answer_other_than_langgraphs_own_store(batches):
    reference = Reference()
    with (
        tempfile.TemporaryDirectory() as folder,
        TranscriptStore("sqlite://") as transcripts,
        JsonStore(folder, debounce_s=60, max_delay_s=60) as files,
    ):
        everything = [SearchOp((), None, 100), ListNamespacesOp()]
        sql = SqlStore(transcripts)
        for batch in (*batches, everything):
            expected = answers(reference, batch)
            assert answers(sql, batch) == answers(files, batch) == expected
        files.flush()
        assert answers(files, everything) == answers(JsonStore(folder), everything) == expected


def test_a_search_brings_the_last_put_first_page_by_page(store):
    for number in range(5):
        store.put(("a", f"b{number % 2}"), f"k{number}", {"n": number})
    store.put(("a", "b0"), "k0", {"n": 9})
    pages = [store.search(("a",), limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [item.key for page in pages for item in page] == ["k0", "k4", "k3", "k2", "k1"]
    wanted = store.search(("a",), filter={"n": {"$gt": 1}}, limit=2, offset=1)
    assert [item.key for item in wanted] == ["k4", "k3"]
    store.put(("a",), "true", {"n": True})
    assert [item.key for item in store.search(("a",), filter={"n": True})] == ["true"]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"n": {"$eq": 2}}, "2"),
        ({"n": {"$ne": 2}}, "0134"),
        ({"n": {"$gt": 2}}, "34"),
        ({"n": {"$gte": 2}}, "234"),
        ({"n": {"$lt": 2}}, "01"),
        ({"n": {"$lte": 2}}, "012"),
        ({"n": {"$gte": 1, "$lt": 3}, "even": True}, "2"),
        ({"in": {"n": 2}}, "2"),
        ({"in": {"n": {"$gt": 2}}}, "34"),
        ({"even": True, "in": {"n": 1}}, ""),
    ],
)
def test_a_filter_compares_as_in_langgraphs_own_store(store, wanted, keys):
    own = InMemoryStore()
    for number in range(5):
        value = {"n": number, "even": number % 2 == 0, "in": {"n": number, "more": 1}}
        for one in (store, own):
            one.put(("a",), str(number), value)
    for one in (store, own):
        assert sorted(item.key for item in one.search(("a",), filter=wanted)) == [*keys]


def test_a_value_that_was_returned_can_be_changed_without_harm(store):
    store.put(("a",), "k", value := {"tags": ["x"]})
    value["tags"].append("y")
    store.get(("a",), "k").value["tags"].append("z")
    assert store.get(("a",), "k").value == {"tags": ["x"]}


@pytest.mark.parametrize("namespace", [("a.b",), ("a", ""), ("a", 1)])
def test_a_batch_refuses_labels_as_langgraphs_methods_do(store, namespace):
    for op in (GetOp(namespace, "k"), PutOp(namespace, "k", {}), SearchOp(namespace)):
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(("a",), "k", {"x": 1}), op])
    assert store.get(("a",), "k") is None


def test_a_value_that_is_no_json_stores_nothing(store):
    with pytest.raises(ConfigurationError, match="value of an item"):
        store.batch([PutOp(("a",), "k", {"x": 1}), PutOp(("a",), "l", {"x": {1}})])
    assert store.search(()) == []


async def test_async_does_the_same_and_never_blocks_the_event_loop(store):
    await store.aget(("a",), "k")  # what is opened once
    with blockbuster_ctx():
        for number in range(5):
            await store.aput(("a",), f"k{number}", {"n": number})
        assert (await store.aget(("a",), "k0")).value == {"n": 0}
        assert len(await store.asearch(("a",), filter={"n": {"$gt": 2}})) == 2
        assert await store.alist_namespaces() == [("a",)]
        await store.adelete(("a",), "k0")
        assert (await store.aerase(("a",)))["items"] == 4


# Items in the database


@pytest.fixture
def transcripts():
    with TranscriptStore("sqlite://", shared=True) as store:
        yield store


def test_erase_is_one_transaction(transcripts, monkeypatch):
    store = SqlStore(transcripts)
    transcripts.add("s", [HumanMessage("hi")], user_id="ann")
    store.put(notes_of_session("ann", "s"), "k", {"x": 1})

    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("langchain_tokenmem.storage.lifecycle.delete_threads", fail)
    with pytest.raises(ZeroDivisionError):
        transcripts.erase(user_id="ann")
    assert [item.namespace for item in store.search(())] == [notes_of_session("ann", "s")]
    assert transcripts.count("s") == 1


def test_a_damaged_item_is_an_error_until_it_is_put_anew_or_deleted(transcripts):
    store, namespace = SqlStore(transcripts), (*notes_of_user("ann@example.com"), "global")
    for key in "ab":
        store.put(namespace, key, {"x": 1})
    with transcripts.database.writing("test") as connection:
        connection.execute(text("UPDATE tokenmem_items SET value = '{'"))
    for read in (lambda: store.get(namespace, "a"), lambda: store.search(namespace)):
        with pytest.raises(CorruptStoreError, match="cannot be read"):
            read()
    store.put(namespace, "a", {"x": 2})
    store.delete(namespace, "b")
    assert [item.value for item in store.search(namespace)] == [{"x": 2}]
