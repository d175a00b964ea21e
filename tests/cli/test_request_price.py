"""Price of requests under prompt caching, and the beginnings that they share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tokenmem.cli.measures import MessageTexts, ReferenceCounter, price, sent_again

COUNTER = ReferenceCounter(lambda text: len(text.split()))
LETTERS = ReferenceCounter(len)
MESSAGES = st.lists(st.text("ab ", max_size=4).map(HumanMessage), max_size=4)


def test_a_cached_token_costs_a_tenth():
    assert price(1_000, 0) == 1_000
    assert price(1_000, 900) == pytest.approx(190)
    assert price(1_000, 900, write=1.25) == pytest.approx(215)


def test_what_is_new_is_not_sent_again():
    assert sent_again(1_000, 400, 100) == 500
    assert sent_again(1_000, 900, 100) == sent_again(1_000, 900, 500) == 0


def test_of_a_text_that_grows_only_whole_blocks_count_by_blocks():
    texts = MessageTexts(COUNTER)
    before = [HumanMessage(["one two", "three"])]
    assert texts.shared(before, [HumanMessage(["one two", "three four"])]) == (3, 2, False)
    assert texts.shared(before, [HumanMessage("other"[::-1])]) == (0, 0, False)


def test_what_is_shared_ends_at_the_first_difference():
    texts, same = MessageTexts(LETTERS), HumanMessage("abc")
    ended = [same, AIMessage("xz"), same]
    assert texts.shared([same, AIMessage("xy")], ended) == (7 + 1, 7, False)
    assert texts.shared([same], [AIMessage("abc")]) == (0, 0, False)
    assert texts.shared([], [same]) == (0, 0, True)
    one, other = (ToolMessage("abc", tool_call_id=key) for key in "12")
    assert texts.shared([one], [other]) == (0, 0, False)


@given(MESSAGES, MESSAGES)
def test_the_common_beginning_is_never_longer_than_either_request(before, more):
    texts = MessageTexts(LETTERS)
    shared, blocks, keeps = texts.shared(before, more)
    assert blocks <= shared <= min(texts.tokens(before), texts.tokens(more))
    assert texts.shared(before, [*before, *more]) == (texts.tokens(before),) * 2 + (True,)
    assert not keeps or shared == texts.tokens(before)


def test_the_newest_part_ends_within_a_message():
    texts = MessageTexts(COUNTER)
    said = [HumanMessage("one two three four"), HumanMessage("five six")]
    assert texts.newest(said, 6) == ["five six", ""]
    [newest, part] = texts.newest(said, 10)
    assert (newest, part) == ("five six", "three four"[1:])
    assert texts.newest(said, 100) == ["five six", "one two three four"]
