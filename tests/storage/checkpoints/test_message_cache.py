"""The message cache gives out copies, notices every edit, and stays within its size."""

from __future__ import annotations

import gc
import tracemalloc
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.storage.checkpoints.message_cache import MessageCache
from langchain_tokenmem.storage.checkpoints.message_copies import (
    CachedList,
    cached,
    copy_message,
    is_same,
)
from langchain_tokenmem.storage.checkpoints.namespaces import Namespace

CALL = {"name": "f", "args": {"a": [1]}, "id": "c", "type": "tool_call"}


def message(number: int = 0, **fields: Any) -> AIMessage:
    return AIMessage(
        f"Hello {number}",
        id=f"m{number}",
        **{"additional_kwargs": {"a": {"b": [1]}}, "tool_calls": [deepcopy(CALL)], **fields},
    )


def cached_list(messages: list[Any]) -> CachedList:
    copies = [copy_message(one) for one in messages]
    return CachedList().extended(
        [cached(one, at + 1, is_final=True) for at, one in enumerate(copies)]
    )


def swapped_names(one: BaseMessage) -> None:
    names = {"additional_kwargs": "response_metadata", "response_metadata": "additional_kwargs"}
    fields = {names.get(name, name): value for name, value in one.__dict__.items()}
    one.__setstate__({**one.__getstate__(), "__dict__": fields})


EDITS: dict[str, Any] = {
    "content": lambda one: setattr(one, "content", "Goodbye"),
    "kwargs": lambda one: one.additional_kwargs.update(more=1),
    "nested": lambda one: one.additional_kwargs["a"]["b"].append(2),
    "emptied": lambda one: one.additional_kwargs.clear(),
    "was empty": lambda one: one.response_metadata.update(more=1),
    "call": lambda one: one.tool_calls[0]["args"]["a"].append(2),
    "calls": lambda one: one.tool_calls.append(CALL),
    "invalid calls": lambda one: one.invalid_tool_calls.append(CALL),
    "extra field": lambda one: setattr(one, "mark", "x"),
    "id": lambda one: setattr(one, "id", "other"),
    "names": swapped_names,
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_a_copy_is_noticed_and_reaches_nobody_else(edit):
    said = [message(number) for number in range(3)]
    wanted = deepcopy(said)
    known = cached_list(said)
    given = known.copies()
    assert known.equals(given)
    EDITS[edit](given[1])
    assert not known.equals(given)
    assert not is_same(known.entries[1], given[1])
    assert known.equals(said)
    assert known.copies() == wanted == said


def test_an_edit_of_a_message_that_was_stored_is_noticed_and_seen_again_when_undone():
    said = [message(number) for number in range(3)]
    known = cached_list(said)
    said[2].additional_kwargs["a"]["b"].append(2)
    assert not known.equals(said)
    said[2].additional_kwargs["a"]["b"].pop()
    assert known.equals(said)


def test_a_message_of_another_type_with_the_same_fields_is_another_one():
    class Other(AIMessage):
        pass

    known = cached_list([message()])
    assert not known.equals([Other(**message().__dict__)])


def test_what_cannot_be_compared_counts_as_changed():
    one, other = message(), message()
    for each in (one, other):
        endless: dict[str, Any] = {}
        endless["self"] = endless
        each.additional_kwargs = endless
    known = CachedList().extended([cached(one, 1, is_final=True)])
    assert not known.equals([other])
    assert not is_same(known.entries[0], other)


def test_extra_fields_come_back_in_every_copy():
    known = cached_list([message(mark={"deep": [1]})])
    for _ in range(2):
        (given,) = known.copies()
        assert given.mark == {"deep": [1]}
        given.mark["deep"].append(2)


def test_lists_that_go_on_from_the_same_one_do_not_mix():
    said = [message(number) for number in range(4)]
    entries = cached_list(said).entries
    begin = CachedList().extended(entries[:2])
    longer, other = begin.extended(entries[2:3]), begin.extended(entries[3:])
    assert begin.copies() == said[:2]
    assert longer.copies() == said[:3]
    assert other.copies() == [*said[:2], said[3]]
    assert longer.ranges == "1:3"
    assert other.equals([*said[:2], said[3]])


def test_copies_share_no_field_with_one_another_or_with_the_cache():
    said = [HumanMessage("a", id="h"), message(), AIMessage("b", id="a"), message(1, tool_calls=[])]
    entries = cached_list(said).entries
    begin = CachedList().extended(entries[:2])
    longer = begin.extended(entries[2:])
    for known, wanted in ((begin, deepcopy(said[:2])), (longer, deepcopy(said))):
        for _ in range(2):
            given = known.copies()
            assert given == wanted
            values = [value for one in given for value in vars(one).values()]
            containers = [value for value in values if isinstance(value, list | dict)]
            assert len({id(value) for value in containers}) == len(containers)
            for value in containers:
                value.append("x") if isinstance(value, list) else value.update(x=1)


MOST = 100_000


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 60), st.integers(0, 3_000), st.booleans()),
        max_size=12,
    )
)
def test_a_cache_never_takes_more_than_its_bytes(puts):
    cache = MessageCache(MOST)
    for number, (thread, count, length, has_ids) in enumerate(puts):
        namespace = Namespace(thread, f"t{thread}", "", thread)
        said = [
            HumanMessage("x" * length, id=f"m{number}-{at}" if has_ids else None)
            for at in range(count)
        ]
        entries = [
            cached(copy_message(one), 1_000 * number + at + 1, is_final=True)
            for at, one in enumerate(said)
        ]
        cache.add(namespace, entries)
        cache.add_list(namespace, f"{number}", CachedList(), entries, said, is_main=True)
        taken = {name: session.bytes for name, session in cache._sessions.items()}
        assert cache._sessions.currsize == sum(taken.values()) <= MOST
        for session in cache._sessions.values():
            held = session.by_reference.values()
            assert session.message_bytes == sum(entry.size for entry in held)
            assert session.by_id.keys() <= {entry.message.id for entry in held}
    cache.clear_if_closed(1)
    assert cache._sessions.currsize == 0


def test_the_threads_used_last_stay_and_what_is_forgotten_is_not_counted():
    cache = MessageCache(MOST)
    for thread in range(40):
        namespace = Namespace(thread, f"t{thread}", "", thread)
        said = [HumanMessage("x" * 1_000, id=f"m{number}") for number in range(5)]
        cache.add(namespace, cached_list(said).entries)
    assert [*cache._sessions][-1] == "t39"
    assert 4 <= len(cache._sessions) <= 16
    for name in [*cache._sessions]:
        cache.forget(name)
    assert cache._sessions.currsize == 0


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "length"), [(400, 20), (60, 3_000), (3, 20)])
def test_the_cache_of_a_saver_takes_no_more_memory_than_cache_bytes(tmp_path, threads, length):
    """1,200 threads took 595 MB when messages were counted and not bytes."""
    most = 2_000_000
    store = TranscriptStore(f"sqlite:///{tmp_path}/memory.db")
    saver = TokenMemorySaver(store, cache_bytes=most)

    def put(number: int) -> None:
        config: Any = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
        said: list[BaseMessage] = []
        for turn in range(3 if threads > 3 else 60):
            said += [
                message(10 * turn + at, additional_kwargs={"text": f"{at}" * length})
                for at in range(10)
            ]
            checkpoint: Any = {
                **empty_checkpoint(),
                "id": f"{turn:08}",
                "channel_values": {"messages": said},
                "channel_versions": {"messages": turn},
            }
            config = saver.put(config, checkpoint, {}, {"messages": turn})

    put(threads)  # what is made once: statements, connections, modules
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(threads):
            put(number)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        store.close()
    assert most * 0.2 < taken < most * 1.2
