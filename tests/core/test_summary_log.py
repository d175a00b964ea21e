"""Log of the running summary: entries stay as they are, cover everything, and keep the prefix."""

import json
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.core.covered import POINTER_IS_LOST
from langchain_tokenmem.core.inserted_text import LEFT_OUT, log_texts
from langchain_tokenmem.core.messages import messages_named, reference
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.finished_summaries import rebase_summary
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.types import RequestRules, View
from tests.fakes import (
    CharCounter,
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
    rules = RequestRules(summary_role=role, legality=draw(st.sampled_from(sorted(PROFILES))))
    return memory_of(draw(st.sampled_from([900, 1_500, 2_000, 4_000])), request=rules)


@dataclass
class Call:
    """One model call: what was said, its state, its request as text, how often it condensed."""

    said: list[BaseMessage]
    state: MemoryState
    view: View
    text: str
    condensed: int

    @property
    def is_whole(self):
        return not self.view.left_out and WARNING_OF_OLDER not in self.view.warnings


def as_sent(messages):
    """Return a request as one text without ends, so that what grows behind it changes nothing."""
    calls = [getattr(message, "tool_calls", "") for message in messages]
    pairs = zip(messages, calls, strict=True)
    return "".join(f"\0{m.type}\0" + "\n\n".join(texts_of(m)) + str(call) for m, call in pairs)


def texts_of(message):
    content = message.content
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def calls_of(memory, said):
    """Return each model call of a conversation, as an application makes them."""
    found, state = [], None
    for end in range(1, len(said) + 1):
        if said[end - 1].type == "ai" or (end < len(said) and said[end].type == "tool"):
            continue
        asked = len(memory.summarizer.requests)
        state, view = memory.compact_and_view(said[:end], state, system=RULES)
        condensed = sum(request.condenses for request in memory.summarizer.requests[asked:])
        found.append(Call(said[:end], state, view, as_sent(view.messages), condensed))
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
    assert entries[-1]["last_ids"][0] == summary["covers_to"]
    # An entry begins with the first request only if that is cut.
    assert entries[0]["first"] in {reference(one.id) for one in said[:2]}
    places = {reference(one.id): place for place, one in enumerate(said)}
    for one, two in pairwise(entries):
        assert said[places[two["first"]] - 1].id == one["last_ids"][0]


@pytest.mark.slow
@given(runs(), memories())
@settings(max_examples=settings.default.max_examples // 2)
def test_the_log_keeps_its_front_leaves_no_gap_and_never_passes_its_share(said, memory):
    most = memory.budget.for_counts(exact=True).summary_tokens
    marker = CharCounter().text(LEFT_OUT) + 20
    calls = calls_of(memory, said)
    for call in calls:
        assert_no_gap(call, said)
        assert call.condensed <= 1
        assert call.view.usage.parts["summary"] <= most + (marker if call.view.left_out else 0)
    for before, after in pairwise(calls):
        assert_the_front_stays(before, after)
    by_id = {message.id: message for message in said}  # as they were said, not as they are cut
    read = [m for r in memory.summarizer.requests if not r.condenses for m in r.messages]
    assert all(message == by_id[message.id] for message in read)


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
    memory = memory_of(4_000)
    said, state = filled_log(memory)
    end = next(n for n, m in enumerate(said) if m.id == state["summary"]["covers_to"])
    asked = len(memory.summarizer.requests)
    after = memory.compact(said[: end + 2], state, instruction="Keep the numbers.")
    [request] = memory.summarizer.requests[asked:]
    assert (request.condenses, request.instruction) == (True, "Keep the numbers.")
    assert [m.content for m in request.messages] == [e["text"] for e in entries_of(state)]
    [entry] = entries_of(after)
    assert (entry["reason"], entry["condensed"]) == ("condensed", ids_of(state))
    assert after["summary"]["covers_to"] == state["summary"]["covers_to"]
    assert after["summary"]["covered"] == state["summary"]["covered"] == entry["covered"]


@pytest.mark.slow
def test_a_new_entry_has_room_for_all_its_messages_whatever_older_entries_need():
    random = Random(1)
    memory, state, said = TokenMemory(8_000), None, []
    system = SystemMessage("Rule of the house. " * 160)
    for n in range(60):
        said.append(HumanMessage(f"Question {n}: where is it? Its word is zulu{n}.", id=f"h{n}"))
        for k in range(random.randint(0, 2)):
            rows = "some row of it\n" * random.randint(40, 114)
            said += tool_round(3 * n + k, f"parcel {3 * n + k}: depot=Oslo\n{rows}")
        before, state = state, memory.compact(said, state, system=system)
        if before != state and state["summary"]:
            entry = newest_entry(state)
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


WORDS = ["invoice", "ledger", "rate", "shop", "total", "order", "parcel", "refund", "stock", "tax"]


@pytest.mark.slow
def test_the_state_of_a_long_conversation_is_no_larger_than_that_of_a_short_one():
    memory, choice = TokenMemory(4_000), Random(1)
    answers = [" ".join(choice.choices(WORDS, k=60)) for _ in range(20)]  # repeated: one line
    messages, state, sizes = [], None, []
    for n in range(120):
        asked = " ".join(choice.choices(WORDS, k=60))
        messages += [HumanMessage(asked, id=f"h{n}"), AIMessage(answers[n % 20], id=f"a{n}")]
        state = memory.compact(messages, state)
        sizes.append(len(json.dumps(state)))
    condensed = [n for n, entry in enumerate(state["summary"]["entries"]) if "condensed" in entry]
    assert condensed == [0]
    assert max(sizes[60:]) < 1.2 * max(sizes[:60])


# References of messages


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
    state = memory.compact(said, None, tools=[{"name": "read_message"}], force=True)
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
