"""The state of a conversation does not grow with it: it is copied at each checkpoint."""

import json
import random

from langchain_core.messages import AIMessage, HumanMessage

from langchain_tokenmem import TokenMemory

WORDS = ["invoice", "ledger", "rate", "shop", "total", "order", "parcel", "refund", "stock", "tax"]


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
