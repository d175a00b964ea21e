"""A graph's thread as the conversation of a turn."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_tokenmem.core.pins import PINS_CHANNEL, pin_update
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import new_state
from langchain_tokenmem.turns.conversation import TurnRequest
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.turn import take_turn
from tests.fakes import ListSummarizer, memory_of, talk

PINS = pin_update("Answer in French.")[PINS_CHANNEL]


def call(memory: TokenMemory, thread: str, messages: Sequence[BaseMessage], pins: Any) -> None:
    """Take a turn of a thread, from no state: the graph loses that of each turn."""
    key, asked = ("ann", thread, "", "x"), [*messages, HumanMessage("And now?", id="z")]
    host = GraphThread(memory, asked, new_state(), key=key, thread=thread, user_id="ann", pins=pins)
    take_turn(host, TurnRequest())


def test_a_summary_is_found_again_only_where_the_same_pins_were_read():
    summarizer = ListSummarizer()
    memory = memory_of(1_000, summarizer=summarizer)
    made = []
    for thread, pins in (("t1", PINS), ("t2", None), ("t3", PINS)):
        call(memory, thread, talk(12, words=25), pins)
        made.append(len(summarizer.requests))
    assert made == [1, 2, 2]


def test_a_second_summary_takes_none_that_read_other_pins_to_another_thread():
    summarizer = ListSummarizer()
    memory = memory_of(1_000, summarizer=summarizer)
    made = []
    for thread, questions, pins in (("t1", 12, PINS), ("t1", 18, None), ("t2", 18, None)):
        call(memory, thread, talk(questions, words=25), pins)
        made.append(len(summarizer.requests))
    assert made == [1, 2, 3]
