"""Log of the running summary: entries stay as they are, cover everything, and keep the prefix."""

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.core.covered import POINTER_IS_LOST
from langchain_tokenmem.core.inserted_text import LEFT_OUT, log_texts
from langchain_tokenmem.core.messages import reference
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.memory.finished_summaries import rebase_summary
from langchain_tokenmem.memory.summary_log import LogWriter
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.types import RequestRules, View
from tests.fakes import (
    CharCounter,
    ListSummarizer,
    entries_of,
    memory_of,
    newest_entry,
    talk,
    tool_round,
)
from tests.providers import problems

WARNING_OF_OLDER = "Older entries of the running summary did not fit and are left out."
RULES = SystemMessage("Rules of the house.")


@st.composite
def runs(draw):
    """Agent runs and talks: a first request, then turns with any number of tool rounds."""
    first = draw(st.integers(1, 250))
    said = [HumanMessage("Fix it. " * first, id="first")]
    for n, size in enumerate(draw(st.lists(st.integers(1, 350), min_size=10, max_size=45))):
        if draw(st.integers(0, 3)) == 0:
            said.append(AIMessage(f"So much for {n}.", id=f"s{n}"))
            said.append(HumanMessage(f"And now {n}? " * (1 + size // 6), id=f"h{n}"))
        said += tool_round(n, f"{n} log. " * size, f"Look at {n}.")
    return said


@st.composite
def memories(draw):
    role = draw(st.sampled_from(["auto", "system"]))
    window = draw(st.sampled_from([900, 1_500, 2_000, 4_000]))
    return memory_of(
        window,
        request=RequestRules(summary_role=role, legality=draw(st.sampled_from(sorted(PROFILES)))),
    )


@dataclass
class Call:
    """One model call: what was said, the state under which it was made, its request as text.

    And how often it has condensed the log.
    """

    said: list[BaseMessage]
    state: MemoryState
    view: View
    text: str
    condensed: int

    @property
    def is_whole(self) -> bool:
        return not self.view.left_out and WARNING_OF_OLDER not in self.view.warnings


def as_sent(messages):
    """Return a request as one text without ends, so that what grows behind it changes nothing."""
    parts = []
    for message in messages:
        content = message.content
        blocks = [content] if isinstance(content, str) else [part["text"] for part in content]
        calls = str(message.tool_calls) if isinstance(message, AIMessage) else ""
        parts.append(f"\0{message.type}\0" + "\n\n".join(blocks) + calls)
    return "".join(parts)


_CONDENSED = LogWriter.condensed


def calls_of(memory, said):
    """Return each model call of a conversation, as an application makes them."""
    found, state = [], None
    for end in range(1, len(said) + 1):
        if said[end - 1].type == "ai" or (end < len(said) and said[end].type == "tool"):
            continue
        with patch.object(LogWriter, "condensed", autospec=True, side_effect=_CONDENSED) as spy:
            state, view = memory.compact_and_view(said[:end], state, system=RULES)
        found.append(Call(said[:end], state, view, as_sent(view.messages), spy.call_count))
    return found


def ids_of(state):
    return [entry["id"] for entry in entries_of(state)]


def assert_the_front_stays(before, after):
    """Across a fold a request never changes up to the end of the earlier entries."""
    old, new = ids_of(before.state), ids_of(after.state)
    cut = before.state["cuts"].get("first") != after.state["cuts"].get("first")
    if new[: len(old)] != old or cut or not (before.is_whole and after.is_whole):
        return
    texts = log_texts(entries_of(before.state))
    end = before.text.index(texts[-1]) + len(texts[-1]) if texts else 0
    front = before.text[:end] or as_sent([RULES])
    assert before.text.startswith(front)
    assert after.text.startswith(front)


def assert_no_gap(call, said):
    """The entries never leave a gap and cover all that is covered."""
    entries, summary = entries_of(call.state), call.state["summary"]
    if summary is None:
        return
    assert sum(entry["covered"] for entry in entries) == summary["covered"]
    assert call.said[summary["covered"] - 1].id == summary["covers_to"]
    assert newest_entry(call.state)["last_ids"][0] == summary["covers_to"]
    # An entry begins with the first request only if that is cut.
    assert entries[0]["first"] in {reference(one.id) for one in said[:2]}
    told = {reference(one.id): place for place, one in enumerate(said)}
    for one, two in pairwise(entries):
        assert said[told[two["first"]] - 1].id == one["last_ids"][0]


@pytest.mark.slow
@given(runs(), memories())
@settings(max_examples=settings.default.max_examples // 2)
def test_the_log_keeps_its_front_leaves_no_gap_and_never_passes_its_share(said, memory):
    most = memory.budget.for_counts(exact=True).summary_tokens
    marker = CharCounter().text(LEFT_OUT) + 20
    calls = calls_of(memory, said)
    for call in calls:
        assert_no_gap(call, said)
        assert call.condensed <= 1, "one call never condenses twice"
        assert call.view.usage.parts["summary"] <= most + (marker if call.view.left_out else 0)
    for before, after in pairwise(calls):
        assert_the_front_stays(before, after)


def filled_log(memory, least=3, words=100):
    """Return a conversation and its state, whose log has so many entries."""
    said, state = [], None
    for n in range(400):
        said += talk(1, n, words)
        state = memory.compact(said, state)
        if len(entries_of(state)) >= least:
            return said, state
    raise AssertionError("The log did not grow.")


def test_a_smaller_window_leaves_the_oldest_entries_out_of_the_view_first_and_says_so():
    said, state = filled_log(memory_of(8_000), least=4)
    small = memory_of(2_000)
    view = small.view(said, state)
    shown = [entry["text"] in view.messages[0].text for entry in entries_of(state)]
    assert shown == sorted(shown)
    assert (shown[0], shown[-1]) == (False, True)
    assert WARNING_OF_OLDER in view.warnings
    assert view.usage.input_tokens <= small.budget.limit
    assert problems(view.messages) == []
    assert WARNING_OF_OLDER not in memory_of(8_000).view(said, state).warnings


def test_a_lost_pointer_is_found_by_the_other_ids_of_its_entry():
    memory = memory_of(4_000)
    said, state = filled_log(memory)
    said += talk(4, 400, 100)
    whole, later = memory.view(said, state), memory.compact(said, state, force=True)
    lost = newest_entry(state)["last_ids"]
    assert lost[0] == state["summary"]["covers_to"]
    assert len(lost) == 8
    for count in range(1, 8):
        rest = [message for message in said if message.id not in lost[:count]]
        view = memory.view(rest, state)
        assert view.messages == whole.messages
        assert POINTER_IS_LOST not in view.warnings
        taken = rebase_summary(rest, state, later, state, said)
        assert taken["summary"] == later["summary"] != state["summary"]


def test_an_instruction_always_writes_and_condenses_the_log_under_it_where_nothing_folds():
    summarizer = ListSummarizer()
    memory = memory_of(4_000, summarizer=summarizer)
    said, state = filled_log(memory)
    end = next(n for n, m in enumerate(said) if m.id == state["summary"]["covers_to"])
    asked = len(summarizer.requests)
    only = said[: end + 2]
    after = memory.compact(only, state, instruction="Keep the numbers.")
    [request] = summarizer.requests[asked:]
    assert (request.condenses, request.instruction) == (True, "Keep the numbers.")
    assert [m.content for m in request.messages] == [e["text"] for e in entries_of(state)]
    [entry] = entries_of(after)
    assert entry["reason"] == "condensed"
    assert entry["condensed"] == ids_of(state)
    assert after["summary"]["covers_to"] == state["summary"]["covers_to"]
    assert after["summary"]["covered"] == state["summary"]["covered"] == entry["covered"]


@pytest.mark.slow
def test_an_entry_is_written_from_the_verbatim_messages_never_their_shortened_forms():
    memory = memory_of()
    said = [HumanMessage("Go.", id="first")]
    state = None
    for n in range(40):
        said += tool_round(n, f"{n} log. " * 150)
        state = memory.compact(said, state)
    assert state["cuts"]
    by_id = {message.id: message for message in said}
    told = [m for request in memory.summarizer.requests for m in request.messages]
    assert any(message.type == "tool" for message in told)
    assert all(message == by_id[message.id] for message in told)
    assert "first" not in {message.id for message in told}


@pytest.mark.slow
def test_a_new_entry_has_room_for_all_its_messages_whatever_older_entries_need():
    random = Random(1)
    memory, state, said = TokenMemory(8_000), None, []
    system = SystemMessage("Rule of the house. " * 160)
    for n in range(60):
        said.append(
            HumanMessage(f"Question {n}: where is parcel {n}? Its word is zulu{n}.", id=f"h{n}")
        )
        for k in range(random.randint(0, 2)):
            call = {"name": "find", "args": {"number": 3 * n + k}, "id": f"c{n}-{k}"}
            rows = "some row of it\n" * random.randint(40, 114)
            said += [
                AIMessage("", id=f"a{n}-{k}", tool_calls=[call]),
                ToolMessage(f"parcel {3 * n + k}: depot=Oslo\n{rows}", tool_call_id=call["id"]),
            ]
        before = state
        state = memory.compact(said, state, system=system)
        if before != state and state["summary"]:
            entry = state["summary"]["entries"][-1]
            assert entry["tokens"] > 8 * entry["covered"]
        said.append(AIMessage(f"Parcel {n} lies in Oslo-{n % 13}.", id=f"f{n}"))
    assert len(entries_of(state)) > 1


@pytest.mark.parametrize("legality", sorted(PROFILES))
def test_a_profile_of_one_text_gets_the_same_blocks_joined(legality):
    messages = talk(30)
    plain, joined = (
        memory_of(1_500, request=RequestRules(legality=name)) for name in ("common", legality)
    )
    state = plain.compact(messages)
    one, two = (m.view(messages, state).messages[0].content for m in (plain, joined))
    texts = "\n\n".join(block["text"] for block in one)
    # Strict alternation joins the first message with a human one behind it, too.
    assert two.startswith(texts) if PROFILES[legality].one_text else two[: len(one)] == one
    assert {name for name, profile in PROFILES.items() if profile.one_text} == {"mistral", "strict"}


@pytest.mark.parametrize("role", ["system", "human"])
def test_an_earlier_question_that_is_asked_again_is_shown_though_it_is_covered(role):
    rules = RequestRules(pin_first=False, summary_role=role)
    memory = TokenMemory(600, counter=CharCounter(), request=rules)
    said, state = [], None
    for number in range(20):
        said.append(HumanMessage(f"question {number} " * 6, id=f"h{number}"))
        state = memory.compact(said, state)
        said.append(AIMessage(f"answer {number} " * 6, id=f"a{number}"))
    assert state["summary"]["covered"] > 17
    for size in (15, 17):
        view = memory.view(said[:size], state)
        assert view.messages[-1].type == "human"
        assert f"question {size // 2} " in view.messages[-1].text
        assert problems(view.messages) == []
