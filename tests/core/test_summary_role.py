"""Place of the running summary: in the first human message, or in the system message."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.types import RequestRules
from tests import fakes
from tests.fakes import CharCounter, talk
from tests.legality import problems

FENCE = "<conversation_summary "


def memory_of(role="auto", window=1_500, **rules):
    return fakes.memory_of(window, request=RequestRules(summary_role=role, **rules))


@pytest.mark.parametrize("legality", sorted(PROFILES))
def test_a_profile_of_one_text_gets_the_same_blocks_joined(legality):
    messages = talk(30)
    plain, joined = (memory_of(legality="common"), memory_of(legality=legality))
    state = plain.compact(messages)
    one, two = (m.view(messages, state).messages[0].content for m in (plain, joined))
    texts = "\n\n".join(block["text"] for block in one)
    # Strict alternation joins the first message with a human one behind it, too.
    assert two.startswith(texts) if PROFILES[legality].one_text else two[: len(one)] == one
    assert {name for name, profile in PROFILES.items() if profile.one_text} == {"mistral", "strict"}


@pytest.mark.parametrize("role", ["system", "human"])
def test_an_earlier_question_that_is_asked_again_is_shown_though_it_is_covered(role):
    memory = TokenMemory(
        TokenBudget(600),
        counter=CharCounter(),
        request=RequestRules(pin_first=False, summary_role=role),
    )
    said, state = [], None
    for number in range(20):
        said.append(HumanMessage(f"question {number} " * 6, id=f"h{number}"))
        state = memory.compact(said, state)
        said.append(AIMessage(f"answer {number} " * 6, id=f"a{number}"))
    assert state["summary"]["covered"] > 17
    for size in (15, 17):
        view = memory.view(said[:size], state)
        assert view.messages[-1].type == "human"
        assert f"question {size // 2} " in view.messages[-1].text
        assert problems(view.messages) == []
