"""Turn memory as text: behind the words of an assistant's message, for the model only."""

from __future__ import annotations

import re
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tokenmem.core.inserted_text import FENCES, without_fences
from langchain_tokenmem.core.messages import call_ids, marks_of, role_of
from langchain_tokenmem.core.turn_memory import (
    MARK,
    as_turn_memory,
    is_empty,
)
from langchain_tokenmem.notes_state import TurnMemory

MAX_FILES = 20
"""Files that are named, in the order in which they were first changed."""

MAX_FAILURES = 10
"""Failed commands that are named, the first ones."""

_HEADING = "Tool memory:"
_ITEM = r"- (?:Files changed: [^\n]+|Failed bash: [^\n]+ \(exit -?\d+\)|\(\+\d+ more\))"
_FENCED = rf"<(?:{FENCES})\b[^>\n]*>(?:(?!</?(?:{FENCES})\b)[\s\S])*</(?:{FENCES})>"
_AT_START = re.compile(rf"\A\s*(?:{_FENCED}\s*)+")
_AT_END = re.compile(rf"(?:^(?:{_HEADING}(?:\n{_ITEM})+|{_FENCED})\s*)+\Z", re.MULTILINE)


def turn_memory_text(memory: TurnMemory) -> str:
    """Return a turn memory as the lines that a model reads; empty where it tells nothing.

    Each file and each command stands on its line, whatever signs are in its name.
    """
    memory = as_turn_memory(memory)
    if is_empty(memory):
        return ""
    lines = [_HEADING]
    files, failed = memory["files_changed"], memory["failed_commands"]
    if files:
        more = _more(len(files) - MAX_FILES)
        lines.append(f"- Files changed: {', '.join(files[:MAX_FILES])}{' ' if more else ''}{more}")
    lines += [
        f"- Failed bash: {one['command']} (exit {one['exit_code']})"
        for one in failed[:MAX_FAILURES]
    ]
    if len(failed) > MAX_FAILURES:
        lines.append(f"- {_more(len(failed) - MAX_FAILURES)}")
    return without_fences("\n".join(lines))


def format_message_for_provider(
    message: BaseMessage, turn_memory: TurnMemory | None = None
) -> BaseMessage:
    r"""Return an assistant's message with its turn memory behind its words, for a model call.

    The form is the same for every provider: a text of its own block where the content is a list.
    The message itself is not changed. One that calls tools, or already ends with its turn memory,
    comes back as it is.

    Args:
        message: A message of any kind.
        turn_memory: What its turn did; None for the one in its
            `response_metadata["tokenmem"]["turn_memory"]`.

    Returns:
        A copy with the turn memory; the message itself where there is nothing to add.

    Example:
        >>> memory = {"files_changed": ["b.go"], "failed_commands": []}
        >>> format_message_for_provider(AIMessage("Done."), memory).content
        'Done.\n\nTool memory:\n- Files changed: b.go'
    """
    if role_of(message) != "ai" or (isinstance(message, AIMessage) and call_ids(message)):
        return message
    given = marks_of(message).get(MARK) if turn_memory is None else turn_memory
    text = turn_memory_text(given) if given else ""
    return with_turn_text(message, text) if text else message


def with_turn_text(message: BaseMessage, text: str) -> BaseMessage:
    """Return a message with the text of its turn memory at the end, once."""
    content: Any = message.content
    if isinstance(content, str):
        if content.rstrip().endswith(text):
            return message
        words = without_turn_text(content)
        return message.model_copy(update={"content": f"{words}\n\n{text}" if words else text})
    last = content[-1] if content else None
    if isinstance(last, dict) and str(last.get("text") or "").rstrip().endswith(text):
        return message
    return message.model_copy(update={"content": [*content, {"type": "text", "text": text}]})


def without_turn_text(text: str) -> str:
    """Return a text without what has the form of an inserted block, at its end or its beginning."""
    if not _may_be_inserted(text):
        return text
    copied = _AT_END.search(text)
    return _AT_START.sub("", text[: copied.start()].rstrip() if copied else text)


def _may_be_inserted(text: str) -> bool:
    return _HEADING in text or "</" in text


def without_echo(message: BaseMessage) -> BaseMessage:
    """Return a reply without blocks in the form of the memory's own: a model has made them up.

    The same message where there are none.
    """
    content: Any = message.content
    if isinstance(content, str) and not _may_be_inserted(content):
        return message  # seen first: it is what nearly all of thousands of messages are
    if role_of(message) != "ai" or not content:
        return message
    if isinstance(content, str):
        words: Any = without_turn_text(content)
    else:
        words = [*map(_block_without_echo, content)]
    return message if words == content else message.model_copy(update={"content": words})


def _block_without_echo(block: Any) -> Any:
    if not isinstance(block, dict) or not isinstance(block.get("text"), str):
        return block
    return {**block, "text": without_turn_text(block["text"])}


def _more(count: int) -> str:
    return f"(+{count} more)" if count > 0 else ""
