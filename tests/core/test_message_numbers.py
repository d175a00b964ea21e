"""Message numbers: fixed once they are shown, never repeated, never those of another message."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory, read_message_tool
from langchain_tokenmem.core.messages import spoken_messages
from langchain_tokenmem.core.numbers import numbered_messages
from langchain_tokenmem.core.shortening import apply_cut
from langchain_tokenmem.core.tool_calls import offers_tool
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.summarize.base import Summary
from tests.fakes import CharCounter, entries_of

READER = {"name": "read_message"}
NAMED = re.compile(r"left out; full text: message (\d+) \.\.\.\]")
NAMING_NOTHING = re.compile(r"left out \.\.\.\]")


class IdSummarizer:
    """Writes the id of each message on a line, and says from which message each is."""

    is_quick = True

    def wants(self, messages) -> bool:
        return True

    def summarize(self, request) -> Summary:
        keys = [str(m.id) for m in request.messages]
        while request.count_text("\n".join(keys)) > request.max_tokens:
            keys.pop()
        sources = tuple((place,) for place in range(len(keys)))
        return Summary("\n".join(keys) or ".", "ids", "ids-1", sources=sources)

    async def asummarize(self, request) -> Summary:
        return self.summarize(request)


def memory_of(window=2_000):
    budget = TokenBudget(context_window=window)
    return TokenMemory(budget, counter=CharCounter(), summarizer=IdSummarizer())


def turn(number: int, sizes=(20, 20), said="") -> list[BaseMessage]:
    asked = [HumanMessage(f"question {number} " * sizes[0], id=f"h{number}")] if sizes[0] else []
    call = {"name": "read", "args": {"n": number}, "id": f"c{number}"}
    return [
        *asked,
        AIMessage(f"I look. {said}", tool_calls=[call], id=f"a{number}"),
        ToolMessage(f"{number} line\n" * sizes[1], tool_call_id=f"c{number}", id=f"t{number}"),
    ]


@dataclass
class Branch:
    """A conversation, its state, and what each number named when it was shown."""

    said: list[BaseMessage] = field(default_factory=list)
    state: MemoryState | None = None
    truth: dict[int, str] = field(default_factory=dict)
    whole: bool = True
    forms: dict[str, tuple[Any, str, str]] = field(default_factory=dict)

    def compact(self, memory: TokenMemory, *, force: bool) -> None:
        old = entries_of(self.state)
        self.state = memory.compact(self.said, self.state, tools=[READER], force=force)
        view = memory.view(self.said, self.state, tools=[READER])
        shown = {str(m.id): m for m in view.messages}
        for key in self.state["cuts"].keys() & shown.keys():
            for number in map(int, NAMED.findall(str(shown[key].content))):
                self.name(number, key)
            self.check_form(key, shown[key])
        for entry in entries_of(self.state)[len(old) :] if old else entries_of(self.state):
            lines = entry["text"].splitlines()
            for key, numbers in zip(lines, entry.get("sources", []), strict=False):
                for number in numbers if "condensed" not in entry else ():
                    self.name(number, key)

    def name(self, number: int, key: str) -> None:
        assert self.truth.setdefault(number, key) == key

    def check_form(self, key: str, shown: BaseMessage) -> None:
        """The bytes of a shortened message stay as long as its words and its cut stay."""
        cut = self.state["cuts"][key]
        words = next(str(m.content) for m in self.said if m.id == key)
        before = self.forms.get(key)
        if shown.type == "tool":
            if before is not None and before[:2] == (cut, words):
                assert str(shown.content) == before[2]
            self.forms[key] = (copy.copy(cut), words, str(shown.content))

    def check(self) -> None:
        spoken = spoken_messages(self.said)
        found = numbered_messages(load_state(self.state), spoken)
        for number, message in found.items():
            assert self.truth.get(number, message.id) == message.id
        here = {message.id for message in spoken}
        for key, cut in self.state["cuts"].items() if self.state else ():
            if key in here and cut.get("number"):
                assert found[cut["number"]].id == key
        if self.whole:
            assert all(found[number].id == key for number, key in self.truth.items())
        summary = self.state["summary"] if self.state else None
        assert summary is None or summary["covered"] <= len(spoken)

    def forked(self) -> Branch:
        return copy.deepcopy(self)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 60), st.integers(1, 250)),
        st.tuples(st.just("say and compact"), st.integers(0, 60), st.integers(1, 250)),
        st.tuples(st.just("compact"), st.booleans(), st.just(0)),
        st.tuples(st.just("remove"), st.integers(0, 400), st.integers(1, 3)),
        st.tuples(st.just("insert"), st.integers(0, 400), st.integers(1, 80)),
        st.tuples(st.just("edit"), st.integers(0, 400), st.integers(1, 80)),
        st.tuples(st.just("fork"), st.integers(0, 30), st.just(0)),
    ),
    min_size=6,
    max_size=30,
)


def play(memory: TokenMemory, drawn, *, removes: bool) -> list[Branch]:
    branch, saved, turns = Branch(said=turn(0)), [], 0
    for kind, one, other in drawn:
        if kind.startswith("say"):
            for _ in range(3):
                turns += 1
                branch.said += turn(turns, (one, other))
        if kind.endswith("compact"):
            saved.append(branch.forked())
            branch.compact(memory, force=kind != "compact" or one)
            branch.check()
        elif kind == "insert" and removes:
            place = one % (1 + len(branch.said))
            turns += 1
            branch.said.insert(place, HumanMessage(f"inserted {other} " * other, id=f"i{turns}"))
            branch.whole = False
        elif kind == "remove" and removes and len(branch.said) > 3:
            start = one % len(branch.said)
            del branch.said[start : start + other]
            branch.whole = False
        elif kind == "edit" and branch.said:
            place = one % len(branch.said)
            old = branch.said[place]
            branch.said[place] = old.model_copy(update={"content": f"edited {other} " * other})
        elif kind == "fork" and saved:
            branch = saved[one % len(saved)].forked()
    branch.said += turn(turns + 1)
    branch.compact(memory, force=True)
    branch.check()
    return [*saved, branch]


@pytest.mark.slow
@settings(max_examples=3 * settings.default.max_examples)
@given(steps, st.sampled_from([900, 2_000]), st.booleans())
def test_a_number_never_names_two_messages_and_opens_the_one_it_named(drawn, window, removes):
    play(memory_of(window), drawn, removes=removes)


@pytest.mark.slow
def test_numbers_are_opened_over_folds_and_condensations():
    memory, branch = memory_of(), Branch()
    for n in range(60):
        branch.said += turn(n, (10, 60))
        branch.compact(memory, force=n % 9 == 0)
        branch.check()
    entries = entries_of(branch.state)
    assert any(entry["reason"] == "condensed" for entry in entries)
    assert len(branch.truth) > 20
    spoken = spoken_messages(branch.said)
    found = numbered_messages(branch.state, spoken)
    assert found == {number: spoken[number - 1] for number in found}
    assert found.keys() >= {*range(1, entries[-1]["last"] + 1)}


def cut_at_the_end() -> tuple[TokenMemory, Branch]:
    """Return a talk in which the newest result, number 12, is shown shortened under its number."""
    memory, branch = memory_of(4_000), Branch()
    for n in range(3):
        branch.said += turn(n)
    branch.said += turn(3, (20, 3_000))
    branch.compact(memory, force=False)
    assert branch.truth == {12: "t3"}
    return memory, branch


def test_no_other_message_gets_the_number_of_one_that_was_removed():
    memory, branch = cut_at_the_end()
    branch.said = [*branch.said[:-1], ToolMessage("again", tool_call_id="c3", id="new")]
    for n in range(4, 30):
        branch.said += turn(n)
        branch.compact(memory, force=n in {4, 9})
        assert 12 not in numbered_messages(branch.state, spoken_messages(branch.said))
    log = entries_of(branch.state)
    assert 12 not in {n for entry in log for line in entry["sources"] for n in line}
    assert "new" in {line for entry in log for line in entry["text"].splitlines()}


def test_a_number_stays_where_messages_before_it_are_removed_and_is_opened_after_a_fold():
    memory, branch = cut_at_the_end()
    del branch.said[3:6]
    for n in range(4, 30):
        branch.said += turn(n)
        branch.compact(memory, force=n == 6)
        found = numbered_messages(branch.state, spoken_messages(branch.said))
        assert found[12].id == "t3"
    assert entries_of(branch.state)[0]["gaps"] == [[9, 11]]
    assert entries_of(branch.state)[0]["covered"] == entries_of(branch.state)[0]["last"] - 3


def test_a_covered_message_that_was_inserted_or_removed_shifts_no_number():
    memory, branch = memory_of(), Branch()
    for n in range(40):
        branch.said += turn(n, (10, 60))
        branch.compact(memory, force=n % 9 == 0)
    front, back = branch.said[:7], branch.said[7:]
    for said in ([*front, *back[1:]], [*front, *turn(99), *back]):
        found = numbered_messages(branch.state, spoken_messages(said))
        assert found
        assert all(message.id == branch.said[n - 1].id for n, message in found.items())


def test_a_marker_names_a_number_only_where_the_model_has_the_tool():
    said = [*turn(1), *turn(2, (20, 3_000))]
    named, nameless = (
        memory_of(4_000).compact_and_view(said, tools=tools)[1].messages[-1].content
        for tools in ([READER], [{"name": "read"}])
    )
    assert NAMED.search(named)
    assert not NAMED.search(nameless)
    assert NAMING_NOTHING.search(nameless)


def test_a_marker_of_a_view_whose_cuts_are_not_kept_names_the_id():
    said = [*turn(1), *turn(2, (20, 3_000))]
    view = memory_of(4_000).view(said, tools=[READER])
    assert "left out; full text: message t2 ...]" in view.messages[-1].content
    said[-1] = said[-1].model_copy(update={"id": "22"})  # would be taken for a number
    view = memory_of(4_000).view(said, tools=[READER])
    assert NAMING_NOTHING.search(view.messages[-1].content)


def test_a_cut_of_an_older_state_is_shown_as_it_was():
    message = ToolMessage("line\n" * 100, tool_call_id="c", id="t")
    marker = "[... 490 characters, 98 lines left out; full text: message t ...]"
    assert apply_cut(message, {"head": 5, "tail": 5}).content == f"line\n{marker}\nline\n"
    state: Any = {**load_state(None), "cuts": {"t": {"head": 5, "tail": 5}}}
    said = [*turn(1), AIMessage("", tool_calls=[{"name": "x", "args": {}, "id": "c"}]), message]
    state, view = memory_of().compact_and_view(said, state, tools=[READER])
    assert state["cuts"] == {"t": {"head": 5, "tail": 5}}
    assert marker in view.messages[-1].content


@pytest.mark.parametrize(
    "tool",
    [
        read_message_tool(),
        {"name": "read_message"},
        {"type": "function", "function": {"name": "read_message"}},
        {"title": "read_message", "type": "object"},
        {"toolSpec": {"name": "read_message"}},
    ],
)
def test_a_tool_is_found_by_its_name_in_every_form(tool):
    assert offers_tool([{"type": "web_search"}, tool], "read_message")
    assert not offers_tool([tool], "read")


def test_covered_is_no_more_than_there_is_where_messages_were_removed():
    memory, branch = memory_of(), Branch()
    for n in range(20):
        branch.said += turn(n, (10, 60))
    branch.compact(memory, force=True)
    before = branch.state["summary"]["covered"]
    fewer = branch.said[:4] + branch.said[9:]
    after = memory.compact(fewer, branch.state)
    assert after["summary"]["covered"] == before - 5
    lost = [m for m in branch.said if m.id not in entries_of(branch.state)[-1]["last_ids"]]
    assert memory.compact(lost[-3:], branch.state)["summary"]["covered"] == 0
    again = memory.compact(lost, branch.state, force=True)
    assert again["summary"]["covered"] <= len(lost)
    assert again["summary"]["entries"][-1]["first"] > before


def test_the_sources_of_an_entry_name_its_messages():
    memory, branch = memory_of(), Branch(said=[SystemMessage("Rules.", id="s")])
    for n in range(12):
        branch.said += turn(n, (10, 60))
    branch.compact(memory, force=True)
    entry = entries_of(branch.state)[-1]
    sources = memory.sources(branch.state, entry)
    assert sources == memory.sources(branch.state, entry["id"])
    assert (sources.first, sources.last) == (entry["first"], entry["last"])
    assert [line for line, _ in sources.lines] == entry["text"].splitlines()
    assert sources.messages == {}
    held = memory.sources(branch.state, entry, branch.said)
    assert [key for key, _ in held.lines] == [held.messages[n].id for _, (n,) in held.lines]
    assert held.messages[entry["last"]].id == branch.state["summary"]["covers_to"]
    with pytest.raises(ConfigurationError, match=f"no entry 'x'; it has: {entry['id']}"):
        memory.sources(branch.state, "x")
    with pytest.raises(ConfigurationError, match="it has: none"):
        memory.sources(load_state(None), "x")
