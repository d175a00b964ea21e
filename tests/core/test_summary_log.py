"""Log of the running summary: entries stay as they are, cover everything, and keep the prefix."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.covered import POINTER_IS_LOST
from langchain_tokenmem.core.inserted_text import LEFT_OUT, log_texts
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.core.references import reference
from langchain_tokenmem.core.size_caps import request_tokens
from langchain_tokenmem.memory.finished_summaries import FinishedSummaries
from langchain_tokenmem.memory.summary_log import LogWriter
from langchain_tokenmem.state import MemoryState
from langchain_tokenmem.summarize.model import ModelSummarizer
from langchain_tokenmem.types import View
from tests.fakes import CharCounter, ListSummarizer, entries_of, log_text, newest_entry
from tests.legality import problems
from tests.summarize.models import Scripted

WARNING_OF_OLDER = "Older entries of the running summary did not fit and are left out."
RULES = SystemMessage("Rules of the house.")


def memory_of(window=2_000, summarizer=None, **options):
    return TokenMemory(
        TokenBudget(context_window=window),
        counter=CharCounter(),
        summarizer=summarizer or ListSummarizer(),
        **options,
    )


def talk(turns, start=0, words=10):
    return [
        message
        for n in range(start, start + turns)
        for message in (
            HumanMessage(f"question {n} " * words, id=f"h{n}"),
            AIMessage(f"answer {n} " * words, id=f"a{n}"),
        )
    ]


@st.composite
def runs(draw):
    """Agent runs and talks: a first request, then turns with any number of tool rounds."""
    first = draw(st.integers(1, 250))
    said = [HumanMessage("Fix it. " * first, id="first")]
    for n, size in enumerate(draw(st.lists(st.integers(1, 350), min_size=10, max_size=45))):
        if draw(st.integers(0, 3)) == 0:
            said.append(AIMessage(f"So much for {n}.", id=f"s{n}"))
            said.append(HumanMessage(f"And now {n}? " * (1 + size // 6), id=f"h{n}"))
        call = {"name": "read", "args": {"n": n}, "id": f"c{n}"}
        said.append(AIMessage(f"Look at {n}.", tool_calls=[call], id=f"a{n}"))
        said.append(ToolMessage(f"{n} log. " * size, tool_call_id=f"c{n}", id=f"t{n}"))
    return said


@st.composite
def memories(draw):
    role = draw(st.sampled_from(["auto", "system"]))
    window = draw(st.sampled_from([900, 1_500, 2_000, 4_000]))
    return memory_of(window, summary_role=role, legality=draw(st.sampled_from(sorted(PROFILES))))


@dataclass
class Call:
    """One model call: what was said, the state under which it was made, its request as text."""

    said: list[BaseMessage]
    state: MemoryState
    view: View
    text: str

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


def calls_of(memory, said):
    """Return each model call of a conversation, as an application makes them."""
    found, state = [], None
    for end in range(1, len(said) + 1):
        if said[end - 1].type == "ai" or (end < len(said) and said[end].type == "tool"):
            continue
        state, view = memory.compact_and_view(said[:end], state, system=RULES)
        found.append(Call(said[:end], state, view, as_sent(view.messages)))
    return found


def pairs_of(calls):
    return list(pairwise(calls))


def ids_of(state):
    return [entry["id"] for entry in entries_of(state)]


@pytest.mark.slow
@given(runs(), memories())
def test_between_two_changes_a_request_never_loses_a_byte_of_the_one_before(said, memory):
    for before, after in pairs_of(calls_of(memory, said)):
        same = before.state["totals"] == after.state["totals"]
        if same and before.is_whole and after.is_whole:
            assert after.text.startswith(before.text)


@pytest.mark.slow
@given(runs(), memories())
def test_across_a_fold_a_request_never_changes_up_to_the_end_of_the_earlier_entries(said, memory):
    for before, after in pairs_of(calls_of(memory, said)):
        old, new = ids_of(before.state), ids_of(after.state)
        cut = before.state["cuts"].get("first") != after.state["cuts"].get("first")
        if new[: len(old)] != old or cut or not (before.is_whole and after.is_whole):
            continue
        texts = log_texts(entries_of(before.state))
        end = before.text.index(texts[-1]) + len(texts[-1]) if texts else 0
        front = before.text[:end] or as_sent([RULES])
        assert before.text.startswith(front)
        assert after.text.startswith(front)


@pytest.mark.slow
@given(runs(), memories())
def test_an_entry_is_never_changed_but_by_a_condensation(said, memory):
    for before, after in pairs_of(calls_of(memory, said)):
        old, new = entries_of(before.state), entries_of(after.state)
        kept = [entry for entry in old if entry in new]
        assert kept == old[len(old) - len(kept) :]
        gone = old[: len(old) - len(kept)]
        if gone:
            assert new[0]["reason"] == "condensed"
            made_of = [entry["id"] for entry in gone]
            assert new[0]["condensed"][: len(made_of)] == made_of
            assert new[0]["first"] == gone[0]["first"]
            assert new[0]["covered"] >= sum(entry["covered"] for entry in gone)
        else:
            assert new[: len(old)] == old
        assert all(entry["reason"] != "condensed" for entry in new[1:])


@pytest.mark.slow
@given(runs(), memories())
def test_the_entries_never_leave_a_gap_and_cover_all_that_is_covered(said, memory):
    for call in calls_of(memory, said):
        entries, summary = entries_of(call.state), call.state["summary"]
        if summary is None:
            continue
        assert sum(entry["covered"] for entry in entries) == summary["covered"]
        assert call.said[summary["covered"] - 1].id == summary["covers_to"]
        assert newest_entry(call.state)["last_ids"][0] == summary["covers_to"]
        # The first request is told only where it is cut.
        assert entries[0]["first"] in {reference(one.id) for one in said[:2]}
        told = {reference(one.id): place for place, one in enumerate(said)}
        for one, two in pairs_of(entries):
            assert said[told[two["first"]] - 1].id == one["last_ids"][0]


@pytest.mark.slow
@given(runs(), memories())
def test_the_log_never_passes_its_share_and_one_call_never_condenses_twice(said, memory):
    most = memory.budget.for_counts(exact=True).summary_tokens
    marker = CharCounter().text(LEFT_OUT) + 20
    state = None
    for end in range(1, len(said) + 1):
        with patch.object(LogWriter, "condensed", autospec=True, side_effect=_CONDENSED) as spy:
            state, view = memory.compact_and_view(said[:end], state, system=RULES)
        assert spy.call_count <= 1
        assert view.usage.parts["summary"] <= most + (marker if view.left_out else 0)


_CONDENSED = LogWriter.condensed


@pytest.mark.slow
@given(runs(), st.sampled_from([700, 900, 1_500, 4_000]))
def test_a_log_with_words_is_never_left_without_any(said, window):
    calls = calls_of(memory_of(window), said)
    for before, after in pairs_of(calls):
        assert bool(log_text(after.state)) >= bool(log_text(before.state))


def filled_log(memory, least=3, words=10):
    """Return a conversation and its state, whose log has so many entries."""
    said, state = [], None
    for n in range(400):
        said += talk(1, n, words)
        state = memory.compact(said, state)
        if len(entries_of(state)) >= least:
            return said, state
    raise AssertionError("The log did not grow.")


@pytest.mark.slow
def test_only_what_passes_the_share_is_condensed_to_half_of_it_and_the_rest_keeps_its_place():
    memory, said, state = memory_of(8_000), [], None
    condensed = []
    for n in range(150):
        said += talk(1, n, 40)
        before, state = state, memory.compact(said, state)
        new = entries_of(state)
        if before and new and new[0]["reason"] == "condensed" and new[0] not in entries_of(before):
            used = memory.view(said[:-2], before).usage.parts["summary"]
            condensed.append((entries_of(before), new, used))
    assert len(condensed) >= 2
    for old, new, used in condensed:
        gone = len([entry for entry in old if entry not in new])
        assert (new[0]["first"], new[0]["last_ids"]) == (old[0]["first"], old[gone - 1]["last_ids"])
        assert new[0]["covered"] == sum(entry["covered"] for entry in old[:gone])
        assert new[0]["tokens"] <= memory.budget.summary_tokens // 2
        assert sum(e["tokens"] for e in new[:-1]) <= memory.budget.summary_tokens * 3 // 4
        assert used > memory.budget.summary_tokens // 2


def test_a_smaller_window_leaves_the_oldest_entries_out_of_the_view_first_and_says_so():
    said, state = filled_log(memory_of(8_000), least=4, words=40)
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
    whole = memory.view(said, state)
    lost = newest_entry(state)["last_ids"]
    assert lost[0] == state["summary"]["covers_to"]
    assert len(lost) == 8
    for count in range(1, 8):
        rest = [message for message in said if message.id not in lost[:count]]
        view = memory.view(rest, state)
        assert view.messages == whole.messages
        assert POINTER_IS_LOST not in view.warnings


def test_where_no_id_of_the_entry_is_left_everything_is_shown_with_a_warning():
    memory = memory_of(8_000)
    said, state = filled_log(memory_of(4_000))
    rest = [m for m in said if m.id not in newest_entry(state)["last_ids"]]
    view = memory.view(rest, state)
    assert POINTER_IS_LOST in view.warnings
    assert {m.id for m in rest} <= {m.id for m in view.messages}
    assert entries_of(state)[0]["text"] in view.messages[0].text


@pytest.mark.slow
@pytest.mark.parametrize("change", ["another id", "condensed", "one more"])
def test_a_finished_summary_is_appended_only_to_the_entries_it_began_with(change):
    memory, finished = memory_of(4_000), FinishedSummaries()
    said, before = filled_log(memory)
    longer = [*said, *talk(30, 500)]
    after = memory.compact(longer, before, force=True)
    assert ids_of(after) != ids_of(before)
    finished.put(longer, before, after, key="thread")
    log = before["summary"]
    entries = {
        "another id": [*log["entries"][:-1], {**log["entries"][-1], "id": "redacted"}],
        "condensed": [{**log["entries"][-1], "id": "condensed"}],
        "one more": [*log["entries"], {**log["entries"][-1], "id": "new"}],
    }[change]
    now = {**before, "summary": {**log, "entries": entries}}
    assert finished.take("thread", longer, now) is now
    taken = finished.take("thread", longer, before)
    assert taken["summary"] == after["summary"]


def test_an_instruction_always_writes_and_condenses_the_log_under_it_where_nothing_folds():
    summarizer = ListSummarizer()
    memory = memory_of(4_000, summarizer)
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


def test_an_instruction_folds_what_it_can_below_the_thresholds_too():
    memory, said = memory_of(8_000), talk(60)
    assert memory.plan(said).reason is None
    state = memory.compact(said, instruction="Keep the numbers.")
    [request] = memory.summarizer.requests
    assert request.instruction == "Keep the numbers."
    assert not request.condenses
    [entry] = entries_of(state)
    assert entry["reason"] == "manual"


def test_an_instruction_folds_and_then_condenses_the_entries_of_before_with_the_new_one():
    memory = memory_of(4_000)
    said, state = filled_log(memory)
    asked = len(memory.summarizer.requests)
    longer = [*said, *talk(12, 500)]
    after = memory.compact(longer, state, instruction="Keep the numbers.")
    write, condense = memory.summarizer.requests[asked:]
    assert (write.condenses, condense.condenses) == (False, True)
    assert write.instruction == condense.instruction == "Keep the numbers."
    assert len(entries_of(after)) == 1
    assert after["summary"]["covered"] > state["summary"]["covered"]
    assert newest_entry(after)["covered"] == after["summary"]["covered"]


def test_where_the_gate_says_no_under_a_cap_the_entry_is_extractive_and_no_model_is_called():
    model = Scripted()
    writer = ModelSummarizer(model)
    memory = memory_of(50_000, writer, max_tail_messages=20)
    short = [HumanMessage("ok", id="h"), *(AIMessage("fine", id=f"a{n}") for n in range(30))]
    assert not writer.wants(short[:20])
    state = memory.compact(short)
    assert newest_entry(state)["reason"] == "tail"
    assert newest_entry(state)["model"] == "extractive"
    assert model.requests == []


def test_an_entry_is_written_from_the_verbatim_messages_never_their_shortened_forms():
    memory = memory_of()
    said = [HumanMessage("Go.", id="first")]
    state = None
    for n in range(40):
        call = {"name": "read", "args": {"n": n}, "id": f"c{n}"}
        said.append(AIMessage("", tool_calls=[call], id=f"a{n}"))
        said.append(ToolMessage(f"{n} log. " * 150, tool_call_id=f"c{n}", id=f"t{n}"))
        state = memory.compact(said, state)
    assert state["cuts"]
    by_id = {message.id: message for message in said}
    told = [m for request in memory.summarizer.requests for m in request.messages]
    assert any(message.type == "tool" for message in told)
    assert all(message == by_id[message.id] for message in told)
    assert "first" not in {message.id for message in told}


def test_the_summarizer_is_shown_the_log_as_context_and_an_entry_repeats_none_of_it():
    memory = memory_of(4_000)
    _, state = filled_log(memory)
    requests = [r for r in memory.summarizer.requests if not r.condenses]
    texts = [entry["text"] for entry in entries_of(state)]
    assert [r.prior for r in requests[:2]] == [None, texts[0]]
    assert requests[2].prior == "\n\n".join(texts[:2])
    for request, text in zip(requests, texts, strict=False):
        assert text.splitlines()[0] in str(request.messages[0].content)


def test_the_memory_block_of_the_first_request_stands_behind_the_log():
    memory = memory_of()
    said = [HumanMessage("Look at everything.", id="first")]
    for n in range(40):
        call = {"name": "read", "args": {"n": n}, "id": f"c{n}"}
        said.append(AIMessage("", tool_calls=[call], id=f"a{n}"))
        said.append(ToolMessage(f"{n} log. " * 30, tool_call_id=f"c{n}", id=f"t{n}"))
    block = {"first": {"text": "<recalled_messages>\nold\n</recalled_messages>", "ids": []}}
    state = {**memory.compact(said), "blocks": block}
    own, *log, recalled = memory.view(said, state).messages[0].content
    assert own["text"] == "Look at everything."
    assert len(log) == len(entries_of(state)) >= 1
    assert recalled["text"] == block["first"]["text"]


def test_the_memory_block_of_another_first_message_stands_between_the_log_and_its_words():
    memory = memory_of(pin_first=False)
    said = [message for message in talk(60) if message.type == "human"]
    state = memory.compact(said, force=True)
    first = memory.view(said, state).messages[0]
    block = {first.id: {"text": "<recalled_messages>\nold\n</recalled_messages>", "ids": []}}
    assert first.id in {message.id for message in said}
    *log, own = memory.view(said, {**state, "blocks": block}).messages[0].content
    assert [part["text"] for part in log] == [*log_texts(entries_of(state))]
    assert own["text"] == f"{block[first.id]['text']}\n\n{first.content[-1]['text']}"


def test_where_the_newest_message_says_nothing_the_marker_stands_in_the_opening_message():
    call = AIMessage("word " * 900, tool_calls=[{"name": "f", "args": {}, "id": "c"}], id="a")
    said = [call, ToolMessage("word " * 900, tool_call_id="c", id="t"), AIMessage([], id="b")]
    memory = memory_of(600)
    view = memory.view(said)
    assert [message.type for message in view.messages] == ["human"]
    assert LEFT_OUT in view.messages[0].text
    assert view.usage.input_tokens == memory.count(view.messages).tokens


def test_the_marker_of_left_out_messages_stands_behind_the_log_and_names_no_number():
    memory = memory_of(4_000)
    said, state = filled_log(memory)
    longer = [*said, *talk(99, 500)]
    texts = set()
    for extra in range(4):
        view = memory.view([*longer, *talk(1 + extra, 600)], state)
        assert view.left_out
        *_, marker = view.messages[0].content
        texts.add(marker["text"])
    assert texts == {LEFT_OUT}
    assert not any(letter.isdigit() for letter in LEFT_OUT)


def test_the_times_of_an_entry_are_those_at_which_its_messages_were_said():
    times = [f"2026-11-{20 + n // 24:02}T{n % 24:02}:05:00+01:00" for n in range(60)]
    marks = [{"tokenmem": {"created_at": time}} for time in times]
    said = [
        message.model_copy(update={"response_metadata": mark})
        for message, mark in zip(talk(30), marks, strict=True)
    ]
    memory = memory_of()
    state = memory.compact(said)
    [entry] = entries_of(state)
    assert entry["since"] == "2026-11-19T23:05:00+00:00"
    last = entry["covered"] - 1
    assert entry["until"] == f"2026-11-{20 + (last - 1) // 24:02}T{(last - 1) % 24:02}:05:00+00:00"
    text = memory.view(said, state).messages[0].text
    ends = entry["until"][:16].replace("T", " ")
    assert f'from="2026-11-19 23:05 UTC" to="{ends} UTC"' in text
    same_day = {**entry, "since": "2026-11-20T10:05:00+00:00", "until": "2026-11-20T10:31:00+00:00"}
    assert 'from="2026-11-20 10:05 UTC" to="10:31">' in log_texts([same_day])[0]
    assert "from=" not in log_texts([{**entry, "since": None}])[0]


class _Silent(ListSummarizer):
    """Writes nothing for some of the requests."""

    def __init__(self, is_silent):
        super().__init__()
        self.is_silent = is_silent

    def summarize(self, request):
        summary = super().summarize(request)
        return replace(summary, text="") if self.is_silent(request) else summary


@pytest.mark.slow
def test_entries_without_a_text_neither_pile_up_nor_save_others_from_being_condensed():
    memory, said, state = memory_of(4_000, _Silent(lambda r: len(r.messages) % 3)), [], None
    lengths, parts = [], []
    for n in range(300):
        said += talk(1, n, 10 + n % 7)
        state, view = memory.compact_and_view(said, state)
        entries = entries_of(state)
        lengths.append(len(entries))
        parts.append(view.usage.parts["summary"])
        assert not any(not (a["text"] or b["text"]) for a, b in pairs_of(entries))
        assert sum(e["covered"] for e in entries) == (state["summary"] or {"covered": 0})["covered"]
    assert state["totals"]["summaries"] > 2 * max(lengths)
    assert max(parts) <= memory.budget.for_counts(exact=True).summary_tokens


def test_where_a_summarizer_writes_nothing_under_an_instruction_the_log_stays_as_it_is():
    memory = memory_of(4_000)
    said, state = filled_log(memory)
    silent = memory_of(4_000, _Silent(lambda request: request.condenses))
    after = silent.compact(said, state, instruction="Keep the numbers.")
    assert ids_of(after)[: len(ids_of(state))] == ids_of(state)
    assert log_text(after).startswith(log_text(state))


@pytest.mark.slow
def test_the_state_never_grows_with_the_number_of_condensations():
    memory, said, state, sizes = memory_of(2_000), [], None, []
    for n in range(600):
        said += talk(1, n)
        state = memory.compact(said[-60:] if state is None else said, state)
        sizes.append(len(json.dumps(state)))
    condensed = entries_of(state)[0]["condensed"]
    assert len(condensed) <= max(len(entries_of(state)), 12)
    assert max(sizes[400:]) <= 1.2 * max(sizes[100:200])


@pytest.mark.slow
@given(runs(), memories())
def test_a_forecast_of_the_request_is_never_less_than_what_the_view_then_has(said, memory):
    memory = TokenMemory(
        replace(memory.budget, model="gpt-4o"),
        summarizer=ListSummarizer(),
        legality=memory.engine.legality,
        summary_role=memory.engine.summary_role,
    )
    state = None
    for end in range(1, len(said) + 1):
        planned, before = memory.plan(said[:end], state), state
        state = memory.compact(said[:end], state)
        made = state["totals"]["summaries"] - (before["totals"]["summaries"] if before else 0)
        if planned.fold and made == 1:
            whole = memory.engine.prepare(said[:end], state)
            assert request_tokens(whole.context) <= planned.after


def test_entries_are_forecast_by_todays_counter_and_not_by_the_one_they_were_written_under():
    said, state = filled_log(memory_of(4_000), least=3, words=40)
    stale = [{**entry, "tokens": 1} for entry in entries_of(state)]
    longer = [*said, *talk(40, 500)]
    one = memory_of(4_000).plan(longer, state)
    other = memory_of(4_000).plan(
        longer, {**state, "summary": {**state["summary"], "entries": stale}}
    )
    assert one == other
    assert one.fold
