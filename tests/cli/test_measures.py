"""What replay measures with: literals of answers, tokens, prices, shared beginnings."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem.cli import measures
from langchain_tokenmem.cli.measures import MessageTexts, ReferenceCounter

LETTERS = ReferenceCounter(len)
MESSAGES = st.lists(st.text("ab ", max_size=4).map(HumanMessage), max_size=4)


def calling(**arguments):
    return AIMessage("", tool_calls=[{"name": "book", "args": arguments, "id": "c"}])


def test_literals_of_an_action_are_copied_values_without_counts_and_dates():
    action = calling(flight="EHGLP3", on="2024-05-20", bags=2, to="Ada Lovelace", cabin="eco")
    assert measures.literals_of_action(action) == ["EHGLP3", "Ada Lovelace"]
    assert measures.literals_of_action(AIMessage("I wrote src/app.py.")) == ["src/app.py"]
    assert measures.find_literals("see a/b.py, fooBar, x_y, v1.2.3 and 12 of 1,250") == [
        *("a/b.py", "fooBar", "x_y", "v1.2.3", "1,250")
    ]
    for guessed in ("2024-05-20", "12", "ab", "word"):
        assert not measures.is_literal(guessed)


@pytest.mark.parametrize("run", ["-", ".", "_", "@", "日"])
def test_one_long_run_of_anything_is_read_in_no_time(run):
    started = time.process_time()
    assert measures.find_literals(f"{run * 20_000} src/app.py") == ["src/app.py"]
    assert time.process_time() - started < 1


@given(MESSAGES, MESSAGES)
def test_the_common_beginning_is_never_longer_than_either_request(before, more):
    texts = MessageTexts(LETTERS)
    shared, blocks, keeps = texts.shared(before, more)
    assert blocks <= shared <= min(texts.tokens(before), texts.tokens(more))
    assert texts.shared(before, [*before, *more]) == (texts.tokens(before),) * 2 + (True,)
    assert not keeps or shared == texts.tokens(before)
