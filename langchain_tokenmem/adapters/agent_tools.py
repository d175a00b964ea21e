"""Tools for agents: `compact_conversation` and `read_message`."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from langchain_tokenmem.core.messages import text_of

COMPACT_REQUESTS = "token_memory_orders"
"""State key of the compactions that an agent asked for, by the memory's name."""

REQUEST_DONE = ""
"""Stands for a request that was carried out; None would be taken for an update left out."""

_DEFAULT_INSTRUCTION = "Keep what the next steps need."
_LONGEST_READ = 20_000
"""Most characters that one reading returns: about 5,000 tokens of English."""


def compact_conversation_tool(name: str = "TokenMemoryMiddleware") -> BaseTool:
    """Return the tool `compact_conversation`, by which an agent folds its old messages itself.

    The tool only notes the request, in the graph's private state; the next model call carries it
    out, by the same code as any other compaction. At that moment no tool call is open.

    Args:
        name: Whose memory: the middleware's name, or the state key of nodes (`memory`).

    Example:
        >>> compact_conversation_tool().name
        'compact_conversation'
    """

    @tool
    def compact_conversation(  # noqa: D417  # what is injected is not the model's to know
        tool_call_id: Annotated[str, InjectedToolCallId], instruction: str = ""
    ) -> Command[Any]:
        """Replace the older messages of this conversation by a summary, to make room.

        Args:
            instruction: What the summary must keep, such as file names or decisions.
        """
        done = "Before your next step older messages become a summary; the latest ones stay."
        return Command(
            update={
                COMPACT_REQUESTS: {name: instruction.strip() or _DEFAULT_INSTRUCTION},
                "messages": [ToolMessage(done, tool_call_id=tool_call_id)],
            }
        )

    compact: BaseTool = compact_conversation
    return compact


def read_message_tool(messages_key: str = "messages") -> BaseTool:
    """Return the tool `read_message`, by which an agent reads again what a marker left out.

    A marker names the message (`full text: message m7`); the text comes from the graph's own
    state, so it follows forks.

    Args:
        messages_key: State key of the messages.

    Example:
        >>> read_message_tool().name
        'read_message'
    """

    @tool
    def read_message(  # noqa: D417  # what is injected is not the model's to know
        id: str,  # noqa: A002
        state: Annotated[Any, InjectedState],
        offset: int = 0,
        limit: int = 4_000,
    ) -> str:
        """Read a message of this conversation that is shown shortened, or no longer at all.

        Args:
            id: The message's id, as a marker names it.
            offset: First character to read.
            limit: How many characters to read, at most 20,000.
        """
        held = state if isinstance(state, dict) else vars(state)
        return read_again(held[messages_key], id, offset, limit)

    read: BaseTool = read_message
    return read


def read_again(messages: list[BaseMessage], key: str, offset: int, limit: int) -> str:
    """Return a part of a message's text, with its place in the whole.

    Args:
        messages: The conversation.
        key: Id of the message.
        offset: First character.
        limit: Characters, at most 20,000.
    """
    found = next((message for message in messages if message.id == key), None)
    if found is None:
        return f"There is no message {key} in this conversation."
    text = text_of(found)
    start = min(max(offset, 0), len(text))
    end = min(start + max(1, min(limit, _LONGEST_READ)), len(text))
    rest = f"; go on with offset={end}" if end < len(text) else ""
    return f"[characters {start:,} to {end:,} of {len(text):,}{rest}]\n{text[start:end]}"
