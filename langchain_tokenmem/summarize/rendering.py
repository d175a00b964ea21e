"""Rendering of messages as the text that a summarizing model reads.

No metadata, no reasoning, no payloads: media appear as handles such as `[image]`. Fences in
the messages are escaped, so that nothing in them can end the block that holds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_tokenmem.core.messages import as_one_message, role_of, text_of, well_formed

_FENCES = re.compile(
    r"<(?=/?(?:earlier_notes|transcript|notes|conversation_summary|working_notes)\b)",
    re.IGNORECASE,
)
NOTES_NAME = "earlier_notes"
"""Name of a human message that holds an entry of the log; see `SummaryRequest.condenses`."""

MOST_MESSAGES = 100
"""Messages that one model call reads."""

_SPEAKERS = {"human": "User", "ai": "Assistant", "tool": "Tool result", "system": "System"}


def escape_fences(text: str) -> str:
    """Return a text that cannot open or close a fence."""
    return _FENCES.sub("&lt;", text)


def render_message(message: BaseMessage) -> str:
    """Return one message as text: speaker, content, and tool calls with their arguments.

    Only its first line is not indented. Notes have no speaker.
    """
    lines = [text_of(message)]
    if message.name == NOTES_NAME:
        return escape_fences(lines[0])
    speaker = _SPEAKERS.get(role_of(message), "User")
    if isinstance(message, ToolMessage) and message.name:
        speaker = f"Tool result of {message.name}"
    if isinstance(message, AIMessage):
        lines += [
            f"calls {call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})"
            for call in message.tool_calls
        ]
        lines += [f"calls {one['name']}({one['args']})" for one in message.invalid_tool_calls]
    text = "\n".join(line for line in lines if line)
    return escape_fences(well_formed(as_one_message(f"{speaker}: {text}")))


def split_transcript(
    messages: Sequence[BaseMessage],
    count_text: Callable[[str], int],
    most_tokens: int,
    most_messages: int = MOST_MESSAGES,
) -> list[str]:
    """Return the transcript in parts that fit; every character of a message is in exactly one.

    Args:
        messages: The transcript, oldest first.
        count_text: Counts the tokens of a text.
        most_tokens: Most tokens of a part; over 0.
        most_messages: Most messages that begin in a part.
    """
    found: list[str] = []
    texts: list[str] = []
    used, begun = 0, 0
    pieces = (
        (_piece(piece, number), int(number == 0))  # the first piece begins a message
        for message in messages
        for number, piece in enumerate(
            split_text(render_message(message), most_tokens - 2, count_text)
        )
    )
    for piece, begins in pieces:
        size = count_text(piece) + 1  # the blank line between two messages
        if texts and (used + size > most_tokens or begun + begins > most_messages):
            found.append("\n\n".join(texts))
            texts, used, begun = [], 0, 0
        texts.append(piece)
        used += size
        begun += begins
    return [*found, "\n\n".join(texts)] if texts else found


def _piece(text: str, number: int) -> str:
    """Return a piece of a message; one that goes on in the middle of a line is indented, too."""
    return text if number == 0 or text.startswith(" ") else f"  {text}"


def split_text(text: str, most_tokens: int, count_text: Callable[[str], int]) -> Iterator[str]:
    """Yield a text in pieces of at most `most_tokens` tokens, cut at line ends if it has some."""
    while text:
        size = len(text)
        while size > 1 and (tokens := count_text(text[:size])) > most_tokens:
            size = max(1, min(size - 1, int(size * 0.95 * most_tokens / tokens)))
        if size < len(text):
            line = text.rfind("\n", size // 2, size) + 1
            size = line or size
        yield text[:size]
        text = text[size:]
