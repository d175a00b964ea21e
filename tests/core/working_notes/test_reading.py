"""Reading of working notes: each message once, incremental, idempotent, nothing made up."""

import copy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import TypeAdapter

from langchain_tokenmem.core.facts.sentences import identifiers_in
from langchain_tokenmem.core.messages import reference
from langchain_tokenmem.core.working_notes.mode_profiles import SECTIONS, new_modes_state
from langchain_tokenmem.core.working_notes.pasted_text import without_pasted_text
from langchain_tokenmem.core.working_notes.reading import MAX_READ_TO
from langchain_tokenmem.state import ModesState
from tests.core.working_notes.notes_reading import assistant, call, items, read, texts, user

_SAID = (
    "Fix the parser in src/app.py.",
    "Our budget is $50k and the deadline is May 3, 2026.",
    "The API must answer within 200 ms at /v1/items.",
    "We decided to use order_events instead of poll_queue because of ticket ABC-1234.",
    "We decided to use PostgreSQL instead of MySQL because Kafka needs rows.",
    "I'd like to go with flight HAT052 on May 3. Never call job_17 there.",
    "Assuming that port 8443 is open, we can start.",
    "My name is Ada Lovelace and I live in Lyon.",
    "I'm using Flask 2.3.1 with config.yaml today.",
    "Sub-goals:\n- Read /etc/app.conf\n- Run job_17",
    "ok",
    "Why does test_login fail?",
    "TypeError: bad operand 0x1F in run.py",
    "Error handling of Emma Kim and the error handling of Emma Kim.",
    "Ich wohne in Hamburg und das Budget beträgt 4.000 €.",
)
_FACTS = re.compile(r"[$€]?\d[\d.,]*\w*|[A-Z]\w+(?: [A-Z]\w+)+|[A-Z][a-z]+ \d+")
"""Amounts, numbers, names of several words, and dates."""

_COMMANDS = ("pytest tests/test_a.py::test_1", "cat src/app.py", "make build > out.log", "ls")
_OUTPUTS = ("ok", "error: no rule for target_7", "FAILED: test_1 (0x1F)\nValueError: bad 17", "")


@st.composite
def conversations(draw):
    messages = []
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from([HumanMessage, AIMessage, ToolMessage]))
        if kind is ToolMessage:
            commands = draw(st.lists(st.sampled_from(_COMMANDS), min_size=1, max_size=2))
            codes = [draw(st.sampled_from([0, 1])) for _ in commands]
            results = [(draw(st.sampled_from(_OUTPUTS)), code) for code in codes]
            messages += work(number, commands, results)
        else:
            said = draw(st.lists(st.sampled_from(_SAID), min_size=1, max_size=3))
            messages.append(kind(" ".join(said), id=f"m{number}"))
    return messages


def work(number, commands, results, said=""):
    """Return calls of `bash` in one message, and results with their exit codes."""
    calls = [
        {"name": "bash", "args": {"command": command}, "id": f"c{number}{n}"}
        for n, command in enumerate(commands)
    ]
    return [
        AIMessage(said, id=f"m{number}", tool_calls=calls),
        *(
            ToolMessage(text, id=f"t{key}", tool_call_id=f"c{key}", artifact={"exit_code": code})
            for key, (text, code) in zip((f"{number}{n}" for n in range(9)), results, strict=False)
        ),
    ]


@given(conversations(), st.data())
def test_reading_in_steps_gives_what_reading_at_once_gives_and_again_changes_nothing(
    messages, data
):
    state, end = new_modes_state("code"), 0
    while end < len(messages):
        end = data.draw(st.integers(end + 1, len(messages)))
        state = read(messages[:end], state)
    assert state == read(messages)
    tail = messages[data.draw(st.integers(0, len(messages) - 1)) :]
    assert read(tail, state) is state


@given(conversations())
def test_no_item_holds_a_literal_that_its_source_lacks(messages):
    for section, found in read(messages)["sections"].items():
        for item in found:
            said = _source_of(messages, item)
            for text in (item["text"], item.get("rationale", ""), *item.get("rejected", [])):
                held = text.partition(": ")[2] if section == "constraints" else text
                held = held.removeprefix("Fixed: ")
                for literal in identifiers_in(held) | {*_FACTS.findall(held)}:
                    assert literal in said, (section, item)


def _source_of(messages, item):
    """Return what the source of an item says; of a result, with its artifact and its call."""
    (source,) = [one for one in messages if reference(one.id) == item["source"]]
    calls = [call for one in messages for call in getattr(one, "tool_calls", ())]
    if isinstance(source, AIMessage):
        calls = source.tool_calls
    else:
        calls = [call for call in calls if call["id"] == getattr(source, "tool_call_id", None)]
    return f"{source.content}\n{getattr(source, 'artifact', '')}\n{calls}"


@given(conversations())
def test_a_state_is_plain_json_within_its_limits_and_what_was_given_stays(messages):
    before = read(messages[:1])
    kept = copy.deepcopy(before)
    state = read(messages, before)
    assert before == kept
    assert TypeAdapter(ModesState).validate_python(json.loads(json.dumps(state))) == state
    assert state["sections"].keys() <= set(SECTIONS)
    assert len(state["read_to"]) <= MAX_READ_TO


def test_a_section_changes_only_when_what_is_shown_of_it_changes():
    messages = [user("Fix src/app.py now."), assistant("I met Emma Kim.")]
    state = read(messages)
    assert state["changed"] == {"task": 1, "objective": 1, "files": 1}
    messages += [user("ok"), user("Fix src/app.py now."), user("src/app.py")]
    state = read(messages, state)
    assert (state["turn"], state["changed"]) == (4, {"task": 1, "objective": 1, "files": 1})
    state = read([*messages, *call("edit_file", {"path": "src/app.py"})], state)
    assert state["changed"]["files"] == 4


def test_results_that_come_later_are_read_and_the_rest_of_their_group_is_not_read_twice():
    results = [("error: a", 1), ("error: b", 1)]
    said = work(1, ["make a", "make b"], results, "We decided to use make for all.")
    state = read(said[:1])
    assert texts(state, "errors") == []
    state = read(said, read(said[:2], state))
    assert texts(state, "errors") == ["make a → error: a", "make b → error: b"]
    assert [one["number"] for one in items(state, "decisions")] == [1]


def test_what_documents_and_pasted_texts_say_is_no_fact_or_rule_of_the_user():
    said = "I live in Berlin. Always pay by card. We decided to use MySQL. The budget is 500 euros."
    prompt = f"<documents>\n{said}\nValueError: no card\n</documents>\nHow do I pay?"
    assert not any(read([user(prompt)])["sections"].values())
    assert read([user(f"Translate this text: {said}")])["sections"].keys() == {"task", "objective"}
    assert {"facts", "constraints", "decisions"} <= read([user(said)])["sections"].keys()


PASTED = [  # what is in brackets is left out
    "Translate the following to French:\n[I live in Berlin.]",
    "Proofread this paragraph:\n[I live in Berlin.]",
    "Please reply to this e-mail.\n\n[Hi Ann,\n\nI live in Berlin.\n\nBob]",
    "Can you check my essay?\n\n[I live in Berlin.\n\n]Please keep it short.",
    "Reply to this e-mail:\n[I live in Rome.\n\nBob\n\n]Never mention the price.",
    "Fix the grammar:\n[I lives in Oslo.]",
    "Übersetze diesen Text:\n[Ich wohne in Berlin.]",
    "Corrige cette lettre :\n[J'habite à Lyon.]",
    "Traduce el siguiente texto:\n[Vivo en Lima.]",
    "Please follow these instructions:\nNever use tabs.",
    "Rules for this conversation:\n\nNever use tabs.",
    "I got this e-mail from Bob.\n\nMy budget is 500 euros.",
    "Thanks for this message.\n\nWe decided to use Kafka.",
    "Rewrite the parser in Rust.\n\nNever use unsafe.",
    "Build this e-mail feature.\n\nNever send more than ten.",
    'Summarize this article: "Rust". Always use bullets.',
    "Fasse dich kurz: ich wohne in Berlin.",
    "Edit this letter: never mention my age.",
    "Shorten this text.\n\nIt must stay under 200 words.\n\nDear Eve,\n\nI live in Rome.",
]


@pytest.mark.parametrize("said", PASTED)
def test_a_pasted_text_is_left_out_and_what_users_say_themselves_stays(said):
    left = without_pasted_text(re.sub(r"[\[\]]", "", said))
    assert left.split() == re.sub(r"\[[^]]*\]", "", said).split()
    assert left == said or "[" in said
