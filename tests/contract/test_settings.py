"""Settings do what they say, by every name and place that the documentation gives them."""

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.store.memory import InMemoryStore

from langchain_tokenmem import Notebook, TokenBudget, TokenMemory, TokenMemorySettings
from langchain_tokenmem.types import Shares, View
from tests.contract.chats import calling


def tool_run(rounds: int, characters: int) -> list[BaseMessage]:
    messages: list[BaseMessage] = [HumanMessage("Look it all up.", id="h")]
    for n in range(rounds):
        messages.append(calling("look", f"c{n}", n=n))
        messages.append(ToolMessage("line of it\n" * (characters // 11), tool_call_id=f"c{n}"))
    return messages


def shown_results(memory: TokenMemory, messages: list[BaseMessage]) -> list[int]:
    view: View = memory.view(messages, memory.compact(messages))
    return [len(str(m.content)) for m in view.messages if m.type == "tool"]


@pytest.mark.slow
@pytest.mark.parametrize("characters", [1_000, 10_000, 100_000])
def test_an_old_tool_result_has_as_many_characters_as_it_was_given(characters):
    messages = tool_run(8, 3 * characters)
    window = 8 * 3 * characters // 4  # a line of 11 characters has fewer than 4 tokens
    given = {"budget": {"context_window": window, "shares": {"result_chars": characters}}}
    for memory in (
        TokenMemorySettings(**given).memory(),
        TokenMemory(TokenBudget(window, shares=Shares(result_chars=characters))),
    ):
        results = shown_results(memory, messages)
        short = [size for size in results if size < 2 * characters]
        assert short, "the oldest are shortened"
        assert all(0.7 * characters <= size <= characters + 100 for size in short)


def test_of_a_limit_in_tokens_and_one_in_characters_the_smaller_wins():
    messages = tool_run(8, 30_000)
    for shares in (Shares(result_tokens=200), Shares(result_tokens=200, result_chars=100_000)):
        memory = TokenMemory(TokenBudget(40_000, shares=shares))
        assert shown_results(memory, messages)[0] < 1_000


@pytest.mark.parametrize(
    ("content", "tags"),
    [
        ("Fix function handler in package server.", ("function handler", "package server")),
        ("Fix the function handler of the package server.", ("function handler", "package server")),
        ("The package arrived and the function works.", ()),
    ],
)
def test_a_note_is_tagged_with_the_functions_and_packages_that_it_names(content, tags):
    assert Notebook(InMemoryStore(), project="shop").add(content, user_id="ann").tags == tags
