"""Counts corrected by what replies report, over the shared recordings of agents.

The memory counts with o200k and does not know the model. The provider's own count is cl100k, or
o200k with all that tools are called with and answer 15 % dearer.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem import TokenBudget, TokenMemory
from langchain_tokenmem.cli.replay import RecordedConversation, load_conversations
from langchain_tokenmem.counting import counter_for
from tests.golden.recordings import SHARED

FILES = ("transcripts_dev", "transcripts_other_dev", "transcripts_long_first_dev")
RECORDINGS = 16
WINDOW = 8_000
MOST_ERROR = 0.06
MARGIN = 0.10
DEARER = 0.15

pytestmark = pytest.mark.skipif(
    not all((SHARED / f"{name}.jsonl.gz").exists() for name in FILES),
    reason=f"the shared recordings are not in {SHARED}; TOKENMEM_DATA names their folder",
)

o200k, cl100k = counter_for(None), counter_for("gpt-4")


def tools_dearer(message: BaseMessage) -> float:
    tokens = o200k.message(message)
    if message.type == "tool":
        return (1 + DEARER) * tokens
    if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
        return tokens + DEARER * (tokens - o200k.text(message.text))
    return tokens


TRUTHS: dict[str, Callable[[BaseMessage], float]] = {
    "cl100k": cl100k.message,
    "tools": tools_dearer,
}
Request = tuple[int, int, int]


def requests(recording: RecordedConversation, truth: str, *, reports: bool) -> Iterator[Request]:
    """Play a recording call by call; each reply reports the true tokens of its request.

    Yields how many replies have reported before, the tokens that were counted, and the true ones.
    """
    memory = TokenMemory(TokenBudget(WINDOW)).for_model(FakeListChatModel(responses=["x"]))
    said: list[BaseMessage] = []
    state: Any = None
    replies = 0
    for message in recording.messages:
        if isinstance(message, AIMessage) and any(m.type != "system" for m in said):
            state, view = memory.compact_and_view(said, state)
            true = round(3 + sum(map(TRUTHS[truth], view.messages)))
            yield replies, view.usage.input_tokens, true
            if reports:
                usage = {"input_tokens": true, "output_tokens": 1, "total_tokens": true + 1}
                message = message.model_copy(update={"usage_metadata": usage})  # noqa: PLW2901
                replies += 1
        said.append(message)


@cache
def chosen() -> list[RecordedConversation]:
    found = [one for name in FILES for one in load_conversations(SHARED / f"{name}.jsonl.gz")]
    return random.Random(16).sample(found, RECORDINGS)


def played(truth: str, *, reports: bool = True) -> list[Request]:
    return [request for one in chosen() for request in requests(one, truth, reports=reports)]


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@pytest.mark.parametrize("truth", TRUTHS)
def test_corrected_counts_are_near_the_truth_and_never_under_it_by_more_than_the_margin(truth):
    found = played(truth)
    assert max(true - counted for _, counted, true in found) <= MARGIN * WINDOW
    assert max(true for *_, true in found) <= WINDOW - WINDOW // 10
    errors = [abs(counted - true) / true for replies, counted, true in found if replies >= 3]
    bare = [abs(counted - true) / true for _, counted, true in played(truth, reports=False)]
    assert len(errors) > 100
    assert quantile(errors, 0.95) <= MOST_ERROR
    assert quantile(errors, 0.5) <= 0.005
    assert quantile(errors, 0.5) < 0.5 * quantile(bare, 0.5)
