"""What LangGraph's `BaseStore` promises, of the files and of the database."""

from __future__ import annotations

import json
import tempfile
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from langchain_tokenmem import JsonStore, SqlStore, TranscriptStore
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.notes.stores import item_store, json_folder, json_store, sql_store

LABELS = st.sampled_from(["a", "b", "ab", "a_", "A", "ü", "%", "~", "x" * 120])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "k.1", "", "ü", "k" * 500])
VALUES = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([1, 2, "1", None, True]))
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
    st.tuples(
        st.lists(MATCHES, max_size=2).map(tuple),
        st.one_of(NONE, st.integers(1, 3)),
    ).map(lambda given: ListNamespacesOp(*given)),
)
BATCHES = st.lists(st.lists(st.one_of(WRITES, WRITES, READS), max_size=5), max_size=4)


class Reference(InMemoryStore):
    """LangGraph's store in memory, but that it lists namespaces that hold nothing."""

    def _handle_list_namespaces(self, op):
        for namespace in [one for one, items in self._data.items() if not items]:
            del self._data[namespace]
        return super()._handle_list_namespaces(op)


def plain(results):
    """Return results without times; the order of a search is checked elsewhere."""
    return [
        sorted(
            (item.namespace, item.key, json.dumps(item.value, sort_keys=True)) for item in result
        )
        if isinstance(result, list) and result and not isinstance(result[0], tuple)
        else result and (result if isinstance(result, list) else (result.key, result.value))
        for result in results
    ]


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
        for batch in batches:
            expected = plain(reference.batch(batch))
            assert plain(sql.batch(batch)) == expected
            assert plain(files.batch(batch)) == expected
        expected = plain(reference.batch(everything))
        files.flush()
        assert plain(sql.batch(everything)) == expected
        assert plain(files.batch(everything)) == expected
        assert plain(JsonStore(folder).batch(everything)) == expected


def test_a_search_brings_the_last_put_first_page_by_page(store):
    for number in range(5):
        store.put(("a", f"b{number % 2}"), f"k{number}", {"n": number})
    store.put(("a", "b0"), "k0", {"n": 9})
    pages = [store.search(("a",), limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [item.key for page in pages for item in page] == ["k0", "k4", "k3", "k2", "k1"]
    wanted = store.search(("a",), filter={"n": {"$gt": 1}}, limit=2, offset=1)
    assert [item.key for item in wanted] == ["k4", "k3"]


def test_a_search_with_a_query_is_as_one_without(store):
    store.put(("a",), "k", {"text": "green tea"})
    (item,) = store.search(("a",), query="black coffee")
    assert (item.key, item.score) == ("k", None)


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


def test_an_unknown_operation_is_a_type_error(json_store):
    with pytest.raises(TypeError, match="operation"):
        json_store.batch([object()])


def test_a_time_to_live_behind_the_end_of_time_is_for_ever(store):
    store.ttl_config = {"omit_expired": True}
    store.put(("a",), "k", {"x": 1}, ttl=1e12)
    assert store.get(("a",), "k").value == {"x": 1}


def clock_of(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a clock that the store reads; it is ahead of the real one by `ahead`."""

    class Clock(datetime):
        ahead = timedelta()

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + cls.ahead

    for module in (item_store, json_folder, json_store, sql_store):
        monkeypatch.setattr(module, "datetime", Clock, raising=False)
    return Clock


TTL = 0.05 / 60
"""Minutes: 50 ms."""


@pytest.mark.slow
def test_items_expire_when_they_are_omitted_and_go_with_a_sweep(store):
    store.put(("a",), "gone", {"x": 1}, ttl=TTL)
    store.put(("a",), "long", {"x": 1}, ttl=60)
    store.put(("b",), "kept", {"x": 1})
    time.sleep(0.06)
    assert store.get(("a",), "gone", refresh_ttl=False) is not None  # LangGraph's default
    store.ttl_config = {"omit_expired": True}
    assert store.get(("a",), "gone") is None
    assert [item.key for item in store.search(())] == ["kept", "long"]
    store.delete(("a",), "long")
    assert store.list_namespaces() == [("b",)]
    store.ttl_config = {}
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    assert [item.key for item in store.search(())] == ["kept"]


@pytest.mark.slow
def test_a_read_begins_the_time_to_live_anew_unless_it_says_not_to(store, monkeypatch):
    store.ttl_config = {"omit_expired": True, "default_ttl": 1}
    clock = clock_of(store, monkeypatch)
    for key in ("got", "searched", "left"):
        store.put((key,), "k", {"x": 1})
    clock.ahead += timedelta(seconds=40)
    assert store.get(("got",), "k") is not None
    assert store.search(("searched",)) != []
    assert store.get(("left",), "k", refresh_ttl=False) is not None
    clock.ahead += timedelta(seconds=40)
    assert [item.namespace[0] for item in store.search((), refresh_ttl=False)] == [
        "searched",
        "got",
    ]
    store.ttl_config = {"omit_expired": True, "refresh_on_read": False}
    assert store.get(("got",), "k") is not None
    clock.ahead += timedelta(seconds=40)
    assert store.search(()) == []
    assert store.sweep_ttl() == 3


def test_an_expired_item_is_not_brought_back_by_a_read(store):
    store.ttl_config = {"omit_expired": True}
    store.put(("a",), "k", {"x": 1}, ttl=TTL)
    time.sleep(0.06)
    assert store.get(("a",), "k", refresh_ttl=True) is None
    assert store.search(("a",), refresh_ttl=True) == []
    assert store.sweep_ttl() == 1


def test_the_sweeper_deletes_what_expires_until_it_is_stopped(store):
    store.put(("a",), "k", {"x": 1}, ttl=TTL)
    ended = store.start_ttl_sweeper(0.02 / 60)
    again = store.start_ttl_sweeper(0.02 / 60)
    for _ in range(3_000):
        if store.get(("a",), "k", refresh_ttl=False) is None:
            break
        time.sleep(0.01)
    assert store.get(("a",), "k") is None
    assert not ended.done()
    assert store.stop_ttl_sweeper()
    assert ended.done()
    assert again.cancel()
    assert store.stop_ttl_sweeper(timeout=1)


def test_a_sweep_that_fails_is_said_and_the_next_one_is_made(store, monkeypatch, caplog):
    made = []

    def fail():
        made.append(1)
        raise StoreError("the database is away")

    monkeypatch.setattr(store, "sweep_ttl", fail)
    ended = store.start_ttl_sweeper(0.005 / 60)
    for _ in range(3_000):
        if len(made) > 1:
            break
        time.sleep(0.005)
    ended.cancel()
    assert store.stop_ttl_sweeper()
    assert len(made) > 1
    assert "the database is away" in caplog.text


def test_without_settings_for_ttl_there_is_no_sweeper(store):
    store.ttl_config = None
    assert store.start_ttl_sweeper().done()


async def test_async_does_the_same_and_never_blocks_the_event_loop(store):
    await store.aget(("a",), "k")  # what is opened once
    with blockbuster_ctx():
        for number in range(5):
            await store.aput(("a",), f"k{number}", {"n": number}, ttl=1)
        assert (await store.aget(("a",), "k0")).value == {"n": 0}
        assert len(await store.asearch(("a",), filter={"n": {"$gt": 2}})) == 2
        assert await store.alist_namespaces() == [("a",)]
        await store.adelete(("a",), "k0")
        assert (await store.aerase(("a",)))["items"] == 4


def test_a_graph_uses_it_as_its_store(store):
    class State(TypedDict):
        count: int

    def node(state: State, *, store: BaseStore) -> State:
        found = store.get(("counts",), "k")
        count = found.value["n"] + 1 if found else 1
        store.put(("counts",), "k", {"n": count})
        return {"count": count}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(store=store)
    assert [graph.invoke({"count": 0})["count"] for _ in range(3)] == [1, 2, 3]


def test_erase_deletes_everything_under_a_prefix_and_nothing_else(store):
    for namespace in (("a", "b"), ("a",), ("ab",), ("a", "c", "d"), ("A",)):
        store.put(namespace, "k", {"x": 1})
    assert store.erase(("a",))["items"] == 3
    assert [item.namespace for item in store.search(())] == [("A",), ("ab",)]
    assert store.erase(("a",))["items"] == 0


def test_erase_reads_back_and_says_what_is_there_again(store, monkeypatch):
    store.put(("a",), "k", {"x": 1})
    # What another process puts right behind the deletion.
    if isinstance(store, SqlStore):
        original = store.store.database.forget_deleted

        def forget():
            original()
            store.put(("a",), "new", {"x": 2})

        monkeypatch.setattr(store.store.database, "forget_deleted", forget)
    else:
        original = store._folder.set_aside

        def set_aside(prefix):
            store._pending[("a",), "new"] = next(iter(changes.values()))
            return original(prefix)

        changes = dict(store._pending)
        monkeypatch.setattr(store._folder, "set_aside", set_aside)
    with pytest.raises(StoreError, match="erase again"):
        store.erase(("a",))
