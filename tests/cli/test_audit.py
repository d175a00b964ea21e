"""Every check of the audit finds the fault that is planted for it, and nothing in what is well."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tokenmem.cli.audit import audit


def calling(key: str, *ids: str, text: str = "") -> AIMessage:
    calls = [{"name": "read", "args": {"path": one}, "id": one} for one in ids]
    return AIMessage(text, id=key, tool_calls=calls)


SYSTEM = SystemMessage("Be brief.", id="m0")
FIRST = HumanMessage("Read both files, please.", id="m1")
CALLS = calling("m2", "a", "b")
RESULT_A = ToolMessage("text of a", tool_call_id="a", id="m3")
RESULT_B = ToolMessage("text of b", tool_call_id="b", id="m4")
ANSWER = AIMessage("Done.", id="m5")
SECOND = HumanMessage("Now read c.", id="m6")
LAST_CALL = calling("m7", "c")
LAST_RESULT = ToolMessage("text of c", tool_call_id="c", id="m8")
HISTORY = [SYSTEM, FIRST, CALLS, RESULT_A, RESULT_B, ANSWER, SECOND, LAST_CALL, LAST_RESULT]


def without(*left_out):
    return [message for message in HISTORY if message not in left_out]


def capped(message, text):
    return message.model_copy(update={"content": text})


def in_place(old, new):
    return [new if message is old else message for message in HISTORY]


@pytest.mark.parametrize("message", [FIRST, SECOND, LAST_RESULT])
def test_what_is_whole_or_old_or_cut_with_a_marker_is_well(message):
    assert audit(HISTORY, HISTORY) == []
    assert audit(HISTORY, without(CALLS, RESULT_A, RESULT_B, ANSWER)) == []
    for name in ("57", message.id):
        marker = f"[... 9 characters, 2 lines left out; full text: message {name} ...]"
        assert audit(HISTORY, in_place(message, capped(message, marker))) == []


@pytest.mark.parametrize("message", [FIRST, SECOND])
def test_in_a_merged_message_words_of_its_own_stand_beside_the_marker(message):
    merged = HumanMessage("Another.\n\n[... 9 characters left out ...]", id="other")
    assert audit(HISTORY, in_place(message, merged)) != []
    beside = f"{message.content[:12]}\n[... 9 characters left out ...]"
    merged = merged.model_copy(update={"content": f"Another one.\n\n{beside}"})
    assert audit(HISTORY, in_place(message, merged)) == []


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ([SYSTEM], "only system messages"),
        (without(FIRST), "first request m1 is missing"),
        ([FIRST, SYSTEM, *HISTORY[2:]], "system message comes after"),
        (without(RESULT_A), "calls without a result: ['a']"),
        (without(LAST_RESULT), "calls without a result at the end: ['c']"),
        (without(CALLS), "result 'a' does not follow"),
        (without(LAST_CALL), "message of the newest calls m7 is missing"),
        ([*HISTORY[:4], RESULT_A, *HISTORY[4:]], "result 'a' does not follow"),
        ([*HISTORY[:6], ANSWER, *HISTORY[6:]], "message id 'm5' occurs 2 times"),
        ([*HISTORY[:5], *HISTORY[2:]], "call id 'a' occurs 2 times"),
        (without(SECOND), "newest human message m6 is missing"),
        (in_place(SECOND, capped(SECOND, "Now")), "human message m6 is shortened without"),
        (in_place(SECOND, capped(SECOND, "see message m61")), "m6 is shortened without"),
        (in_place(FIRST, capped(FIRST, "Read")), "first request m1 is shortened without"),
        (in_place(LAST_RESULT, capped(LAST_RESULT, "text")), "result m8 is shortened without"),
    ],
)
def test_a_planted_fault_is_found(request_, fault):
    assert fault in " | ".join(audit(HISTORY, request_))


def test_a_newest_answer_that_is_missing_is_found():
    said = [SYSTEM, FIRST, ANSWER]
    assert audit(said, said) == []
    assert audit(said, [SYSTEM, FIRST]) == ["the newest message m5 is missing"]


def test_newest_calls_that_were_cut_down_need_a_marker():
    many = calling("m2", "a", "b")
    said = [FIRST, many, RESULT_A, RESULT_B]
    few = [FIRST, calling("m2", "b"), RESULT_B]
    fault = "the message of the newest calls m2 is shortened without a marker that names it"
    assert audit(said, few) == [fault]
    told = [FIRST, calling("m2", "b", text="[1 call left out: message m2]"), RESULT_B]
    assert audit(said, told) == []
