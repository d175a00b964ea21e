"""The message cache gives out copies, notices every edit, and stays within its size."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

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
    return CachedList(cached(one, at + 1, is_final=True) for at, one in enumerate(copies))


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
    known = CachedList([cached(one, 1, is_final=True)])
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
    begin = CachedList(entries[:2])
    longer, other = begin.extended(entries[2:3]), begin.extended(entries[3:])
    assert begin.copies() == said[:2]
    assert longer.copies() == said[:3]
    assert other.copies() == [*said[:2], said[3]]
    assert longer.ranges == "1:3"
    assert other.equals([*said[:2], said[3]])


def test_copies_share_no_field_with_one_another_or_with_the_cache():
    said = [HumanMessage("a", id="h"), message(), AIMessage("b", id="a"), message(1, tool_calls=[])]
    entries = cached_list(said).entries
    begin = CachedList(entries[:2])
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


def test_a_cache_keeps_no_more_than_its_size():
    cache = MessageCache(100)
    for thread in range(5):
        namespace = Namespace(thread, f"t{thread}", "", thread)
        said = [HumanMessage("Hello", id=f"m{number}") for number in range(60)]
        entries = cached_list(said).entries
        cache.add(namespace, entries)
        cache.add_list(namespace, "1:60", CachedList([]), entries, said, is_main=True)
        assert sum(one.size for one in cache._sessions.values()) <= 100
    assert len(cache.by_reference(namespace)) == 60
