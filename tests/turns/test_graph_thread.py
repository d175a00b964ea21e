"""A graph's thread as the conversation of a turn."""

from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem.core.pins import PINS_CHANNEL, pin_update
from langchain_tokenmem.state import new_state
from langchain_tokenmem.turns.conversation import TurnRequest
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.turn import take_turn
from tests.fakes import ListSummarizer, memory_of


def test_a_summary_is_found_again_only_where_the_same_pins_were_read():
    summarizer = ListSummarizer()
    memory = memory_of(1_000, summarizer=summarizer)
    said = [
        message
        for n in range(12)
        for message in (
            HumanMessage(f"Question {n} " + "why " * 40, id=f"h{n}"),
            AIMessage(f"Answer {n} " + "so " * 40, id=f"a{n}"),
        )
    ]
    messages = [*said, HumanMessage("And now?", id="z")]
    pins = pin_update("Answer in French.")[PINS_CHANNEL]
    made = []
    for thread, given in (("t1", pins), ("t2", None), ("t3", pins)):
        key = ("ann", thread, "", "x")
        host = GraphThread(
            memory, messages, new_state(), key=key, thread=thread, user_id="ann", pins=given
        )
        take_turn(host, TurnRequest())
        made.append(len(summarizer.requests))
    assert made == [1, 2, 2]
