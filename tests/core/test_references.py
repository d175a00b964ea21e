"""References of messages: in the sources of entries, and where two messages share a short one."""

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from langchain_tokenmem.core.messages import messages_named, reference
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import load_state
from tests.fakes import entries_of, memory_of, talk

READER = {"name": "read_message"}


def with_ids(messages, *_) -> str:
    """Summarize by a line with the reference and the id of each message."""
    return "\n".join(f"[{reference(m.id)}] {m.id}" for m in messages)


def test_where_two_messages_share_a_reference_a_longer_one_tells_them_apart():
    said = [HumanMessage("a", id=key) for key in ("id-905", "id-2312", "c")]
    assert messages_named(said, reference("id-905")) == said[:2]
    assert messages_named(said, reference("id-2312", 12)) == [said[1]]
    for name in (f"#{reference('c').upper()}", "c"):
        assert messages_named(said, name) == [said[2]]
    assert messages_named(said, "") == []


def test_the_sources_of_an_entry_name_its_messages():
    memory = memory_of(summarizer=with_ids)
    said = [SystemMessage("Rules.", id="s"), *talk(20)]
    state = memory.compact(said, None, tools=[READER], force=True)
    entry = entries_of(state)[-1]
    sources = memory.sources(state, entry)
    assert sources == memory.sources(state, entry["id"])
    assert (sources.first, sources.last) == (entry["first"], reference(entry["last_ids"][0]))
    assert [line for line, _ in sources.lines] == entry["text"].splitlines()
    assert sources.messages == {}
    held = memory.sources(state, entry, said)
    assert [line.split()[1] for line, _ in held.lines] == [
        held.messages[name].id for _, (name,) in held.lines
    ]
    assert held.messages[held.last].id == state["summary"]["covers_to"]
    assert held.messages[held.first].id == "h0"
    with pytest.raises(ConfigurationError, match=f"no entry 'x'; it has: {entry['id']}"):
        memory.sources(state, "x")
    with pytest.raises(ConfigurationError, match="it has: none"):
        memory.sources(load_state(None), "x")
