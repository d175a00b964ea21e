"""Times of messages: shown in front of the text at the provider boundary, and nowhere else."""

from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem.core.message_times import stamped, without_stamp
from langchain_tokenmem.core.messages import marks_of
from langchain_tokenmem.state import new_state
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.fakes import newest_entry

NOON = datetime(2026, 2, 14, 12, tzinfo=UTC)


def memory_of(show_times):
    return fakes.memory_of(8_000, request=RequestRules(show_times=show_times), now=lambda: NOON)


def at(message, time):
    return stamped(message, datetime.fromisoformat(f"2026-02-{time}+00:00"))


TALK = [
    at(HumanMessage("One?", id="h1"), "13T23:59:00"),
    at(AIMessage("One.", id="a1"), "13T23:59:58"),
    at(HumanMessage("Two?", id="h2"), "14T15:23:05"),
    at(AIMessage("Two.", id="a2"), "14T15:23:09"),
    at(HumanMessage("Three?", id="h3"), "14T15:24:00"),
]


def shown(show_times, messages):
    return [message.content for message in memory_of(show_times).view(messages).messages]


def test_a_human_message_shows_its_time_and_that_of_the_answer_before_it():
    assert shown("human", TALK) == [
        "[2026-02-13 23:59:00 UTC] One?",
        "One.",
        "[2026-02-14 15:23:05 UTC, previous answer 2026-02-13 23:59:58 UTC] Two?",
        "Two.",
        "[2026-02-14 15:24:00 UTC, previous answer 15:23:09 UTC] Three?",
    ]


@pytest.mark.parametrize(
    ("time", "stamp"),
    [
        ("2026-02-14T02:00:00+03:00", "[2026-02-13 23:00:00 UTC] "),
        ("2026-02-14T02:00:00", "[2026-02-14 02:00:00 UTC] "),
        ("yesterday", ""),
    ],
)
def test_a_time_in_another_zone_is_shown_in_utc_and_one_without_a_zone_is_utc(time, stamp):
    marks = {"tokenmem": {"created_at": time}}
    assert shown("human", [HumanMessage("Q?", response_metadata=marks)]) == [f"{stamp}Q?"]


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    "message",
    [
        AIMessage([THOUGHT, "Done."]),
        AIMessage([{"type": "text", "text": "Done.", "extras": {"signature": "s"}}]),
        AIMessage("Done.", additional_kwargs={"reasoning_content": "hm"}),
        AIMessage("Done.", additional_kwargs={"__gemini_thought_signatures__": {"c": "s"}}),
    ],
)
def test_an_answer_with_signed_or_thinking_blocks_shows_no_time(message):
    message = stamped(message.model_copy(update={"id": "a"}), NOON)
    messages = [HumanMessage("Go.", id="h"), message, HumanMessage("On.", id="h2")]
    assert shown("all", messages)[1] == message.content


def test_the_summarizer_reads_messages_without_times_and_its_entry_has_the_first_sights():
    messages = [*TALK, *(AIMessage(f"step {n} " * 40, id=f"s{n}") for n in range(40))]
    bare = [m.model_copy(update={"response_metadata": {}}) for m in messages]
    times = [[m.id or "", marks_of(m)["created_at"]] for m in TALK]
    memory = memory_of("human")
    after = memory.compact(bare, {**new_state(), "times": times}, force=True)
    entry = newest_entry(after)
    assert (entry["since"], entry["until"]) == (times[0][1], times[4][1])
    assert "UTC" not in entry["text"]
    assert all("UTC" not in str(m.content) for m in memory.summarizer.requests[0].messages)


STAMP = "[2026-02-14 15:23:05 UTC]"


def text(words: str, **more: str) -> dict:
    return {"type": "text", "text": words, **more}


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (f"{STAMP} Hi.", "Hi."),
        (f"{STAMP}\nHi.", "Hi."),
        ([text(f"{STAMP} Hi.")], [text("Hi.")]),
        ([text(STAMP), text("Hi")], [text("Hi")]),
        *[(kept, kept) for kept in (f" {STAMP} Hi.", "[2026-02-14] Hi.", STAMP, f"At {STAMP} Hi.")],
        ([text(f"{STAMP} Hi.", signature="s")], [text(f"{STAMP} Hi.", signature="s")]),
    ],
)
def test_only_an_exact_stamp_at_the_very_beginning_is_taken_off(said, stored):
    assert without_stamp(AIMessage(said)).content == stored
    assert without_stamp(HumanMessage(said)).content == said
