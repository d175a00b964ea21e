"""Coverage of a request: which literals of the recorded answer it holds, far ones apart.

- **coverage**: literals of the recorded answer that the request holds, as a share of those that the
  history holds and the application's system text does not; the mean over the calls that have such
  literals. A request over the window holds none.
- **far**: the same of the literals that are not in the newest 0.3 x window tokens of the history.
- **whole fresh results**: calls whose new tool results all stand uncut in the request, as a share
  of the calls with new tool results.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage

from langchain_tokenmem.cli.literals import literals_of_action
from langchain_tokenmem.cli.price import MessageTexts
from langchain_tokenmem.cli.reference_counter import text_of

NEAR_SHARE = 0.3
"""Share of the window, at the end of the history, in which a literal is near."""


def needed_literals(
    texts: MessageTexts, history: Sequence[BaseMessage], action: BaseMessage
) -> list[str]:
    """Return the literals of an action that the history holds and the system text does not.

    Args:
        texts: Words of the messages.
        history: The messages before the action.
        action: What the model has answered in the recording.
    """
    system = [texts.sent(m).said for m in history if isinstance(m, SystemMessage)]
    others = [texts.sent(m).said for m in history if not isinstance(m, SystemMessage)]
    return [
        literal
        for literal in literals_of_action(action)
        if texts.any_holds(reversed(others), literal) and not texts.any_holds(system, literal)
    ]


def far_literals(
    texts: MessageTexts, history: Sequence[BaseMessage], literals: Sequence[str], window: int
) -> list[str]:
    """Return the literals that the newest part of the history does not hold.

    Args:
        texts: Words of the messages.
        history: The messages before the action.
        literals: Those that the action needs.
        window: Tokens of the window; its newest `NEAR_SHARE` is near.
    """
    near = texts.newest(history, int(NEAR_SHARE * window))
    return [literal for literal in literals if not texts.any_holds(near, literal)]


def held_literals(
    texts: MessageTexts, request: Sequence[BaseMessage], literals: Sequence[str]
) -> list[str]:
    """Return the literals that a request holds."""
    shown = [texts.sent(message).said for message in request]
    return [literal for literal in literals if texts.any_holds(shown, literal)]


def are_whole(results: Sequence[ToolMessage], request: Sequence[BaseMessage]) -> bool:
    """Return whether tool results all stand uncut in a request.

    Example:
        >>> result = ToolMessage("42", tool_call_id="1")
        >>> are_whole([result], [result]), are_whole([result], [])
        (True, False)
    """
    shown = [text_of(message) for message in request if isinstance(message, ToolMessage)]
    return all(any(text_of(result) in text for text in shown) for result in results)
