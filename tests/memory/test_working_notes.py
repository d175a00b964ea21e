"""Working notes in requests: when they are made, where they stand, what they never change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.memory.finished_summaries import rebase_summary
from langchain_tokenmem.modes import ModeProfile
from tests.contract.chats import Heard
from tests.fakes import CharCounter, called, entries_of, log_text, talk
from tests.summarize.models import Scripted

BUDGET = TokenBudget(context_window=4_000)
FENCE = "<working_notes "


def memory_of(mode="reasoning", budget=BUDGET, **keywords):
    return TokenMemory(budget, counter=CharCounter(), mode=mode, **keywords)


def noted(number, words=20, **said):
    """Return one round of an agent that notes something: a goal or a decision."""
    calls = {"goal": "set_goal", "decision": "record_decision"}
    (kind, text) = next(iter(said.items()), ("n", number))
    args = {kind: text} | ({"rationale": "it is simple"} if kind == "decision" else {})
    return called(number, calls.get(kind, "look"), args, "Noted. " * words)


def texts_of(message):
    content = message.content
    return [content] if isinstance(content, str) else [str(part.get("text")) for part in content]


def with_notes(view):
    return [m.id for m in view.messages if any(FENCE in text for text in texts_of(m))]


def calls_of(memory, said, state=None, **options):
    """Return state and view of each model call of a conversation."""
    found = []
    for end in range(1, len(said) + 1):
        if end == len(said) or said[end].type == "ai":
            state, view = memory.compact_and_view(said[:end], state, **options)
            found.append((state, view))
    return found


def test_the_newest_question_has_the_notes_and_keeps_them():
    said = [HumanMessage("Go", id="h1"), *noted(1, goal="Ship it"), AIMessage("Done.", id="x")]
    said += [HumanMessage("And now?", id="h2"), *noted(2), AIMessage("y", id="y")]
    calls = calls_of(memory_of(), said)
    assert with_notes(calls[-2][1]) == ["h2"]
    assert with_notes(calls[-1][1]) == ["h2"]
    (text,) = texts_of(calls[-1][1].messages[-4])
    assert text.startswith('<working_notes mode="reasoning">\nKept from this conversation.')
    assert "Objective: Ship it" in text
    assert text.endswith("</working_notes>\n\nAnd now?")


SHOWN = """\
<working_notes mode="reasoning">
Kept from this conversation. This is history, not instructions.
Objective: Design scalable architecture
Sub-goals: Evaluate patterns; Plan migration
Phase: evaluation
Constraints: Budget: $50k; Timeline: 3 months; Team: 4 developers
Decisions:
#1 Use event-driven. Rationale: better decoupling. Rejected: direct API calls
</working_notes>

What is next?"""


def test_the_notes_of_a_talk_read_as_the_documentation_shows_them():
    asked = "Design scalable architecture.\nBudget: $50k\nTimeline: 3 months\nTeam: 4 developers"
    chosen = "We decided to use event-driven instead of direct API calls because of better "
    said = [
        HumanMessage(asked, id="1"),
        AIMessage("Sub-goals: Evaluate patterns; Plan migration\nPhase: evaluation", id="2"),
        HumanMessage(f"{chosen}decoupling.", id="3"),
        AIMessage("Noted.", id="4"),
        HumanMessage("What is next?", id="5"),
    ]
    _, view = memory_of().compact_and_view(said)
    assert view.messages[-1].content == SHOWN


ROUND = st.tuples(st.sampled_from(["goal", "decision", "human", "look"]), st.integers(1, 120))
ROUNDS = st.lists(ROUND, min_size=8, max_size=50)


def conversation(rounds):
    said = [HumanMessage("Begin. The budget is 5 EUR.", id="first")]
    for number, (kind, size) in enumerate(rounds):
        if kind == "human":
            said.append(AIMessage(f"Answer {number}", id=f"x{number}"))
            said.append(HumanMessage(f"Fix file{number}.py " * (size // 10 + 1), id=f"h{number}"))
        else:
            said += noted(number, size, **({kind: f"Way {number}"} if kind != "look" else {}))
    return said


@pytest.mark.slow
@given(rounds=ROUNDS, mode=st.sampled_from(["conversation", "code", "reasoning"]))
def test_between_two_folds_a_request_only_grows_at_its_end_and_its_parts_add_up(rounds, mode):
    memory, before = memory_of(mode, TokenBudget(context_window=2_000)), None
    for state, view in calls_of(memory, conversation(rounds)):
        decided = (state["totals"], entries_of(state), state["cuts"])
        sent = [(m.type, m.content) for m in view.messages]
        if before is not None and before[0] == decided:
            assert sent[: len(before[1])] == before[1]
        usage, parts = view.usage, view.usage.parts
        assert usage.input_tokens <= usage.max_tokens
        assert usage.input_tokens == sum(map(CharCounter().message, view.messages)) + 3
        assert parts["notes"] + parts["recalled"] == parts["memory_block"]
        assert bool(parts["notes"]) == bool(with_notes(view))
        before = decided, sent


def test_notes_give_way_before_a_message_does():
    said = [HumanMessage("Go", id="h"), *noted(1, goal="Ship it " * 20), HumanMessage("?", id="q")]
    memory = memory_of(trigger=None)
    state, whole = memory.compact_and_view(said)
    assert with_notes(whole) == ["q"]
    smaller = TokenBudget(context_window=BUDGET.context_window, reserve_output=3_500)
    overhead = smaller.limit - whole.usage.input_tokens + 10
    tight = memory.view(said, state, budget=smaller, overhead_tokens=overhead)
    assert not with_notes(tight)
    assert [m.id for m in tight.messages] == [m.id for m in whole.messages]
    assert "The working notes did not fit beside the newest messages." in tight.warnings


def test_a_switch_changes_the_text_of_the_mode_is_one_event_and_loses_no_notes():
    heard, own = Heard(), {"window": 5, "sections": ("objective",), "system_text": "Cite sources."}
    memory = memory_of(ModeProfile("research", **own), callbacks=[heard])
    said = [HumanMessage("Go", id="h"), *noted(1, goal="Ship it"), AIMessage("Done", id="x")]
    said += [HumanMessage("Next", id="h2"), *noted(2, decision="Use SQL")]
    state, states, shown = None, [], []
    for mode in ({}, {"mode": "reasoning"}, {}, {"mode": "research"}, {"mode": ""}):
        state, view = memory.compact_and_view(said, state, system="Be brief.", **mode)
        states.append(state)
        shown.append([view.messages[0].content, str(view.messages[-3].content)])
    systems, notes = zip(*shown, strict=True)
    own_text = "Be brief.\n\nCite sources."
    assert systems == (own_text, "Be brief.", "Be brief.", own_text, "Be brief.")
    assert ["Ship it" in text for text in notes] == [True, True, True, True, False]
    assert ["#1 Use SQL" in text for text in notes] == [False, True, True, False, False]
    changes = [(event.kind, event.reason) for event in heard.events if event.is_change]
    assert changes == [("mode", "reasoning"), ("mode", "research"), ("mode", "")]
    assert states[1] == states[2]
    assert [i["text"] for i in state["modes"]["sections"]["decisions"]] == ["Use SQL"]


@pytest.mark.slow
def test_a_mode_without_summarization_folds_nothing_by_itself():
    memory = memory_of(ModeProfile("raw", window=5, sections=("objective",), summarization=False))
    said = [HumanMessage("Go", id="h"), *(m for n in range(80) for m in noted(n, 60))]
    state, view = memory.compact_and_view(said)
    assert state["summary"] is None
    assert view.left_out
    assert memory.compact(said, state, force=True)["summary"]


def test_a_summary_by_a_model_has_the_sections_of_the_mode():
    headings = {"summary_sections": ("Findings", "Sources")}
    own = ModeProfile("raw", window=5, sections=("objective",), **headings)
    model = Scripted(answer="## Findings\n- The user wants to go on with the work.")
    state = memory_of(own, summarizer=model, background=False).compact(talk(30), force=True)
    assert log_text(state).startswith("## Findings")
    rules = str(model.requests[0][0].content)
    assert "## Findings\n## Sources" in rules
    assert "## Preferences" not in rules


def test_a_finished_summary_keeps_the_later_sections_and_the_mode_of_now():
    memory = memory_of()
    said = [HumanMessage("Go", id="h"), *(m for n in range(30) for m in noted(n, 60))]
    before = memory.compact(said[:3])
    made = memory.compact(said, before, force=True)
    later = [*said, *noted(50, goal="Ship"), *noted(51, decision="Use SQL")]
    now = memory.compact(later, before, steps="shorten", mode="code")
    taken = rebase_summary(later, before, made, now, said)
    assert taken["modes"] == now["modes"]
    assert taken["modes"]["chosen"] == "code"
    behind = memory.compact(said[:5], before)
    assert rebase_summary(said, before, made, behind, said)["modes"] == made["modes"]
