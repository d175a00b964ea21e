"""What other savers' users look for: paths in filters, values without new versions, odd parents."""

from __future__ import annotations

import random
import sqlite3
import string
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from langchain_tokenmem.adapters.checkpoints.config import NamedId

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def store():
    with TranscriptStore("sqlite://") as opened:
        yield opened


@pytest.fixture
def saver(store):
    return TokenMemorySaver(store)


@pytest.fixture
def stock():
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


def put(
    saver: BaseCheckpointSaver[Any],
    config: Any,
    name: str,
    values: dict[str, Any],
    versions: dict[str, Any] | None = None,
    *,
    new: Any = None,
    metadata: Any = None,
) -> Any:
    checkpoint = {
        **empty_checkpoint(),
        "id": name,
        "channel_values": values,
        "channel_versions": versions or {},
    }
    return saver.put(config, checkpoint, metadata or {}, new or {})  # type: ignore[arg-type]


# --- filters


METADATA = {
    "source": "loop",
    "user": {"name": "ann", "access-level": 3, "address": {"town": "Lisbon"}, "tags": ["a"]},
    "step": 1,
    "on": True,
    "none": None,
}


@pytest.mark.parametrize(
    "wanted",
    [
        {"user.name": "ann"},
        {"user.access-level": 3, "source": "loop"},
        {"user.address.town": "Lisbon"},
        {"user.address": {"town": "Lisbon"}},
        {"user.tags": ["a"]},
        {"user.nobody": None},
        {"nothing.at.all": None},
        {"source.name": None},
        {"on": True, "none": None},
        {"user.name": "bob"},
        {"user.name.first": "ann"},
        {"user.address.town": None},
        {"user": "ann"},
        {"source.name": "loop"},
    ],
)
def test_a_metadata_filter_with_dots_is_a_path_as_for_sqlite_saver(saver, stock, wanted):
    for one in (saver, stock):
        put(one, THREAD, "1", {}, metadata=METADATA)
        put(one, THREAD, "2", {}, metadata={"source": "input"})
    found, right = (
        [each.checkpoint["id"] for each in one.list(THREAD, filter=wanted)]
        for one in (saver, stock)
    )
    assert found == right


def test_a_key_with_a_dot_in_it_is_a_key_first(saver):
    put(saver, THREAD, "1", {}, metadata={"user.name": "ann", "user": {"name": "bob"}})
    assert len(list(saver.list(THREAD, filter={"user.name": "ann"}))) == 1
    assert list(saver.list(THREAD, filter={"user.name": "bob"})) == []


# --- values without new versions


def noise(seed: int) -> str:
    return "".join(random.Random(seed).choices(string.printable, k=2_000))


def test_values_without_new_versions_read_back_as_with_sqlite_saver(store, saver, stock):
    answers = []
    for one in (saver, stock):
        said = [HumanMessage("hi", id="1")]
        first = {"x": 1, "large": noise(1), "messages": said}
        versions = dict.fromkeys(first, 1)
        config = put(one, THREAD, "1", first, versions, new=versions)
        # Nothing is new, and nothing changed: as a copy of a checkpoint is stored.
        config = put(one, config, "2", first, versions)
        # Other values, though no version says so.
        other = {"x": 2, "large": noise(2), "messages": [*said, HumanMessage("ho", id="2")]}
        config = put(one, config, "3", other, versions)
        # No versions at all.
        put(one, config, "4", {"x": 3, "y": [4], "large": noise(2)})
        answers.append([each.checkpoint["channel_values"] for each in one.list(THREAD)])
    assert answers[0] == answers[1]
    with store.database.reading("A test") as connection:
        counted = "SELECT count(*) FROM tokenmem_checkpoint_values"
        assert connection.exec_driver_sql(counted).scalar() == 2, "large values, each once"


# --- parents that are a cycle


def cycle(saver: BaseCheckpointSaver[Any], metadata: Any = None) -> Any:
    """Put a checkpoint again, below its own descendant."""
    counted = {"ch": 1}
    a = put(saver, THREAD, "a", {}, counted, metadata=metadata)
    saver.put_writes(a, [("ch", "first")], "task")
    b = put(saver, a, "b", {}, counted, metadata=metadata)
    saver.put_writes(b, [("ch", "second")], "task")
    put(saver, b, "a", {}, counted, metadata=metadata)
    return b


def test_the_history_of_a_delta_channel_ends_where_the_parents_are_a_cycle(saver, stock):
    found, right = (
        one.get_delta_channel_history(config=cycle(one), channels=["ch"]) for one in (saver, stock)
    )
    assert found == right == {"ch": {"writes": [("task", "ch", "first")]}}


def test_a_thread_whose_parents_are_a_cycle_is_pruned(saver):
    cycle(saver, {"counters_since_delta_snapshot": {"ch": 1}})
    saver.prune(["t"], keep_last=1)
    assert {one.checkpoint["id"] for one in saver.list(THREAD)} == {"a", "b"}


# --- ids


class Prefix(str):
    """Compares as LangGraph's own `AnyStr` does."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(str(self))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def test_the_id_of_a_named_checkpoint_equals_any_str_subclass_with_its_text(saver):
    config = put(saver, THREAD, "some-id", {"x": 1}, {"x": 1}, new={"x": 1})
    found = saver.get_tuple(config)
    assert found is not None
    name = found.config["configurable"]["checkpoint_id"]
    assert type(name) is NamedId
    for equal in ("some-id", Prefix("some"), NamedId("some-id")):
        assert name == equal
        assert equal == name
        assert not name != equal  # noqa: SIM202  it is a method of its own
    for other in ("some", Prefix("other"), NamedId("x"), 1, None):
        assert name != other
        assert other != name
        assert not name == other  # noqa: SIM201
    assert {name: 1}["some-id"] == 1
