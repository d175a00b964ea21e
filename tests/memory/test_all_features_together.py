"""Every feature at once, times to pins: a view is still legal, and within the limit."""

import copy
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenMemory
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.profiles import PROFILES
from langchain_tokenmem.errors import BudgetExceededError
from langchain_tokenmem.modes import TurnMemorySettings
from langchain_tokenmem.types import RequestRules
from tests.fakes import memory_of
from tests.features import with_features, with_work
from tests.providers import CHECKS, problems
from tests.strategies import conversations

SHOWN = TurnMemorySettings(include_partial=True, project_root="/app", shown="always")


@pytest.mark.slow
@pytest.mark.parametrize("profile", sorted(PROFILES))
@given(
    conversations(18),
    st.randoms(use_true_random=False),
    st.sampled_from([900, 2_000, 8_000]),
    st.sampled_from(["code", "reasoning"]),
    st.sampled_from(["human", "all"]),
)
@settings(max_examples=settings.default.max_examples // 2)
def test_a_view_with_all_features_is_legal_and_within_the_limit(
    profile, said, dice, window, mode, times
):
    rules = RequestRules(legality=profile, show_times=times)
    memory = memory_of(window, request=rules, mode=mode, turn_memory=SHOWN, summarizer=None)
    messages, state = with_work(dice, said), None
    before = copy.deepcopy(messages)
    for end in (len(messages) // 2, len(messages)):
        shown = messages[:end]
        try:
            state = with_features(dice, state, shown)
            state, view = memory.compact_and_view(shown, state, system="Be brief.")
        except BudgetExceededError:
            return
        assert view.usage.input_tokens == memory.count(view.messages).tokens
        assert view.usage.input_tokens <= memory.budget.limit
        assert view.output_left >= 1
        if not any(role_of(one) != "system" for one in view.messages):
            continue
        assert problems(view.messages) == []
        if profile in CHECKS:
            CHECKS[profile](view.messages)
    assert messages == before
    assert memory.compact(messages, state, system="Be brief.") == state


WORDS = ["invoice", "ledger", "rate", "shop", "total", "order", "parcel", "refund", "stock", "tax"]


@pytest.mark.slow
def test_the_state_of_a_long_conversation_is_no_larger_than_that_of_a_short_one():
    memory, choice = TokenMemory(4_000), random.Random(1)
    answers = [" ".join(choice.choices(WORDS, k=60)) for _ in range(20)]  # repeated: one line
    messages, state, sizes = [], None, []
    for n in range(120):
        asked = " ".join(choice.choices(WORDS, k=60))
        messages += [HumanMessage(asked, id=f"h{n}"), AIMessage(answers[n % 20], id=f"a{n}")]
        state = memory.compact(messages, state)
        sizes.append(len(json.dumps(state)))
    condensed = [n for n, entry in enumerate(state["summary"]["entries"]) if "condensed" in entry]
    assert condensed == [0]
    assert max(sizes[60:]) < 1.2 * max(sizes[:60])
