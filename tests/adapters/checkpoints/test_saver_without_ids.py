"""Messages without ids, as reducers other than `add_messages` leave them, are said once each."""

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from langchain_tokenmem import TokenMemorySaver, TranscriptStore
from tests.adapters.checkpoints.test_saver_robustness import at, put

THREAD: Any = {"configurable": {"thread_id": "t1"}}
words = st.sampled_from(["yes", "no", "go on"])
turns = st.lists(st.tuples(words, words, st.booleans()), min_size=1, max_size=8)


def last(size, *, rebuilt=False):
    def reducer(old, new):
        kept = [*(old or []), *new][-size:]
        return [message.model_copy(deep=True) for message in kept] if rebuilt else kept

    return reducer


def chat(saver, reducer):
    """Return a graph that answers with the word that it is told to."""

    class State(TypedDict):
        messages: Annotated[list, reducer]
        answer: str

    def answer(found):
        return {"messages": [AIMessage(found["answer"])]}

    return StateGraph(State).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)


def texts(messages):
    return [message.content for message in messages]


@pytest.mark.slow
@given(turns, st.sampled_from([100]))
@settings(max_examples=settings.default.max_examples * 2 // 3)
def test_every_message_is_in_the_transcript_once_and_in_order(chosen, size):
    with TranscriptStore("sqlite://") as store:
        twin, said = chat(InMemorySaver(), last(size)), []
        saver = TokenMemorySaver(store)
        for question, reply, is_restarted in chosen:
            if is_restarted:
                saver = TokenMemorySaver(store)
            graph = chat(saver, last(size))
            given = {"messages": [HumanMessage(question)], "answer": reply}
            found, wanted = graph.invoke(given, THREAD), twin.invoke(given, THREAD)
            assert found["messages"] == wanted["messages"]
            assert TokenMemorySaver(store).get_tuple(THREAD) is not None
            said += [question, reply]
            assert texts(store.messages("t1")) == said


@pytest.mark.slow
def test_a_list_that_is_built_anew_in_every_step_is_known_by_its_words():
    with TranscriptStore("sqlite://") as store:
        said = []
        for number in range(9):
            saver = TokenMemorySaver(store)
            turn = {"messages": [HumanMessage(f"q{number}")], "answer": f"a{number}"}
            chat(saver, last(6, rebuilt=True)).invoke(turn, THREAD)
            said += [f"q{number}", f"a{number}"]
        assert texts(store.messages("t1")) == said


def test_a_copied_thread_goes_on_without_saying_anything_twice():
    with TranscriptStore("sqlite://") as store:
        saver = TokenMemorySaver(store)
        for number in range(4):
            turn = {"messages": [HumanMessage(f"q{number}")], "answer": f"a{number}"}
            chat(saver, last(4)).invoke(turn, THREAD)
        saver.copy_thread("t1", "t2")
        copied: Any = {"configurable": {"thread_id": "t2"}}
        turn = {"messages": [HumanMessage("q4")], "answer": "a4"}
        for each in (saver, TokenMemorySaver(store)):
            chat(each, last(6, rebuilt=True)).invoke(turn, copied)
        said = [f"{role}{number}" for number in range(4) for role in "qa"]
        assert texts(store.messages("t1")) == said
        assert texts(store.messages("t2"))[:10] == [*said, "q4", "a4"]
        rows = {row.message.content: row.was_named for row in store.rows("t2")}
        assert not any(rows.values())


@pytest.mark.slow
@pytest.mark.parametrize(("size", "cut"), [(200, 199), (200, 150), (230, 210), (230, 5)])
def test_what_was_cut_off_and_is_said_again_in_the_same_words_is_stored(size, cut):
    """Looked at in stretches of 200, of which the last one may be begun only."""
    with TranscriptStore("sqlite://") as store:
        saver, config = TokenMemorySaver(store), at("t1")
        said = [HumanMessage(f"m{number}") for number in range(size)]
        for version, found in enumerate(
            (said, said, said[:cut], [*said[:cut], *(m.model_copy() for m in said[cut:])]), 1
        ):
            config = put(saver, config, {"messages": found}, f"{version}.0")
            assert saver.get_tuple(config).checkpoint["channel_values"]["messages"] == found
        again = saver.get_tuple(config).checkpoint["channel_values"]["messages"]
        config = put(saver, config, {"messages": again[:cut]}, "5.0")
        more = [*again[:cut], *(m.model_copy() for m in again[cut:])]
        config = put(saver, config, {"messages": more}, "6.0")
        assert saver.get_tuple(config).checkpoint["channel_values"]["messages"] == more
