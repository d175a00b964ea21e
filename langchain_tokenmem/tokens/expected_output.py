"""Expected length of an answer, from the answers that a request holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median_high

from langchain_core.messages import AIMessage, BaseMessage

ANSWERS = 8
"""Answers that are looked at, the newest ones."""


def expected_output(
    messages: Sequence[BaseMessage], count: Callable[[BaseMessage], int]
) -> int | None:
    """Return the tokens that the next answer may have; None where there is no answer yet.

    Args:
        messages: The request.
        count: Counts the tokens of a message, for answers that report no usage.

    Returns:
        The median of the newest answers: few long ones, or an empty one, do not move it.
    """
    answers = (message for message in reversed(messages) if isinstance(message, AIMessage))
    sizes = [_output_tokens(answer, count) for answer in islice(answers, ANSWERS)]
    return median_high(sizes) if sizes else None


def _output_tokens(answer: AIMessage, count: Callable[[BaseMessage], int]) -> int:
    reported = answer.usage_metadata["output_tokens"] if answer.usage_metadata else 0
    return reported if reported > 0 else count(answer)
