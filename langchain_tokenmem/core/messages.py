"""Helpers for messages: ids, roles, texts, metadata and groups.

Nothing here modifies a given message; a changed message is a copy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import is_
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, ToolMessage

from langchain_tokenmem.core.block_types import REASONING, TEXT

Role = Literal["system", "human", "ai", "tool", "remove"]

MARKS = "tokenmem"
"""Key in `response_metadata` for everything that the memory adds to a message."""

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "human": "human",
    "user": "human",
    "ai": "ai",
    "assistant": "ai",
    "tool": "tool",
    "function": "tool",
    "remove": "remove",
    "SystemMessageChunk": "system",
    "HumanMessageChunk": "human",
    "AIMessageChunk": "ai",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "tool",
}
_SPEAKERS = {"human": "user", "ai": "assistant"}
CHAT_TYPES = frozenset({"human", "ai", "tool"})
"""Types of messages that are always part of the conversation, regardless of their content."""

_HIDDEN_BLOCKS = REASONING | {"tool_use", "tool_call", "tool_call_chunk", "function_call"}


def role_of(message: BaseMessage) -> Role:
    """Return the role of a message; a `ChatMessage` has its own, an unknown one is human."""
    if isinstance(message, ChatMessage):
        return _ROLES.get(message.role, "human")
    return _ROLES.get(message.type, "human")


def speaker_of(role: str, name: str | None = None) -> str:
    """Return the speaker of a message for a text: its name, else `user`, `assistant`, ..."""
    return name or _SPEAKERS.get(role, role)


def as_one_message(text: str) -> str:
    """Return the text of one message for a list of several: each further line is indented.

    So no text in a message can be mistaken for the beginning of another one.
    """
    return "\n  ".join(text.splitlines())


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can encode: half a surrogate pair in it becomes U+FFFD.

    A stream that was cut within an emoji leaves half of one. Neither providers nor hashes accept
    it.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def text_of(message: BaseMessage) -> str:
    """Return the readable text of a message, with media as handles such as `[image]`.

    Reasoning blocks and tool calls have no text here: they are not part of the conversation. A
    spoken answer, which has no content, has the text of its transcript.
    """
    if isinstance(message.content, str):
        return well_formed(message.content or transcript_of(message))
    return "\n".join(part for part in map(block_text, message.content) if part)


def transcript_of(message: BaseMessage) -> str:
    """Return the words of a spoken answer in OpenAI's form; empty for any other message."""
    audio = message.additional_kwargs.get("audio")
    return str(audio.get("transcript") or "") if isinstance(audio, dict) else ""


def transcribed(message: AIMessage) -> AIMessage:
    """Return a spoken answer as the text of its transcript, and any other answer itself."""
    if message.content or not (spoken := text_of(message)):
        return message
    rest = {key: one for key, one in message.additional_kwargs.items() if key != "audio"}
    return message.model_copy(update={"content": spoken, "additional_kwargs": rest})


def block_text(block: Any) -> str:
    """Return the readable text of one content block, or its handle."""
    if isinstance(block, str):
        return well_formed(block)
    if not isinstance(block, dict):
        return ""
    kind = block.get("type")
    if kind in TEXT or (kind is None and "text" in block):
        text = block.get("text")
        return well_formed(text) if isinstance(text, str) else ""
    if kind in _HIDDEN_BLOCKS:
        return ""
    if kind == "compaction" and isinstance(block.get("content"), str):
        return str(block["content"])
    return f"[{kind.replace('_url', '')}]" if isinstance(kind, str) and kind else ""


_SENT = (
    *("content", "name", "tool_calls", "invalid_tool_calls", "tool_call_id"),
    "additional_kwargs",
)
_DEEPEST = 50


def well_formed_message(message: BaseMessage) -> BaseMessage:
    """Return a message whose texts are all well-formed; the same object if they are."""
    held = vars(message)
    fields = {name: value for name in _SENT if (value := held.get(name))}
    update = {name: clean for name, value in fields.items() if (clean := _clean(value)) != value}
    return marked(message.model_copy(update=update), cut=True) if update else message


def _clean(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if depth < _DEEPEST and isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    if depth < _DEEPEST and isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    return value


def is_reasoning_block(block: Any) -> bool:
    """Return whether a content block contains a model's reasoning."""
    return isinstance(block, dict) and block.get("type") in REASONING


def is_blank_block(block: Any) -> bool:
    """Return whether a content block is a text without a visible character."""
    if isinstance(block, str):
        return not block.strip()
    return isinstance(block, dict) and "text" in block and not str(block["text"] or "").strip()


def digest_of(message: BaseMessage) -> str:
    """Return a digest of 32 hex digits of a message's content, without its id and metadata."""
    fields = [
        role_of(message),
        message.name,
        message.content,
        getattr(message, "tool_calls", None),
        getattr(message, "tool_call_id", None),
    ]
    return text_digest(json.dumps(fields, default=repr, skipkeys=True))


def text_digest(text: str, size: int = 16) -> str:
    """Return a digest of a text, as the hex digits of `size` bytes."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


class NamedMessages(list[BaseMessage]):
    """Messages of a conversation, each with a unique id, with a lookup by id.

    Made by `with_ids` and not changed afterwards.

    Attributes:
        places: Index of each message by its id.
        unspoken: Indexes of messages outside the conversation: system messages and the like.
    """

    def __init__(self, messages: Iterable[BaseMessage], places: Mapping[str | None, int]) -> None:
        super().__init__(messages)
        self.places = places
        self.unspoken = [n for n, one in enumerate(self) if one.type not in CHAT_TYPES]

    def extended(self, rest: Sequence[BaseMessage]) -> NamedMessages | None:
        """Return these messages followed by others; None if one of those has no id yet."""
        if not rest:
            return self
        found = with_ids(rest)
        if not (same_objects(found, rest) and self.places.keys().isdisjoint(found.places)):
            return None
        start = len(self)
        longer = NamedMessages(
            (), {**self.places, **{m.id: start + n for n, m in enumerate(found)}}
        )
        longer += [*self, *found]
        longer.unspoken = [*self.unspoken, *(start + place for place in found.unspoken)]
        return longer


def with_ids(messages: Sequence[BaseMessage]) -> NamedMessages:
    """Return the messages, each with a unique id; an earlier return value is returned unchanged.

    A message without an id gets one from its content and the number of earlier messages with that
    content, so that the same list always gets the same ids. Of two messages with the same id and
    content the first stays; a message with the same id and other content gets a suffixed id.
    """
    if isinstance(messages, NamedMessages):
        return messages
    places = {message.id: place for place, message in enumerate(messages)}
    if len(places) == len(messages) and not ({None, ""} & places.keys()):
        return NamedMessages(messages, places)  # as a graph or a store gives them
    seen: dict[str | None, BaseMessage] = {}
    repeats: Counter[str] = Counter()
    for message in messages:
        key = message.id
        if not key:
            digest = digest_of(message)
            repeats[digest] += 1
            key = f"tm-{digest}-{repeats[digest]}"
        if key in seen:
            if digest_of(seen[key]) == digest_of(message):
                continue
            key = _unused_id(key, seen)
        seen[key] = message if key == message.id else message.model_copy(update={"id": key})
    return NamedMessages(seen.values(), dict(zip(seen, range(len(seen)), strict=True)))


def same_objects(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two sequences contain the same objects, by identity."""
    return len(one) == len(other) and all(map(is_, one, other))


def is_spoken(message: BaseMessage) -> bool:
    """Return whether a message is part of the conversation: not a system or remove message."""
    return role_of(message) not in {"system", "remove"}


def spoken_messages(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that have numbers, each with an id."""
    return [*filter(is_spoken, with_ids(messages))]


def _unused_id(key: str, taken: Container[str | None]) -> str:
    number = 2
    while f"{key}~{number}" in taken:
        number += 1
    return f"{key}~{number}"


def marks_of(message: BaseMessage) -> dict[str, Any]:
    """Return the memory's metadata of a message: `created_at`, `pinned`, `cut`."""
    metadata = message.response_metadata  # a node may have set it to anything
    marks = metadata.get(MARKS) if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) else {}


def marked(message: BaseMessage, **marks: Any) -> BaseMessage:
    """Return a copy of `message` with `marks` added to the memory's metadata."""
    metadata = {**message.response_metadata, MARKS: {**marks_of(message), **marks}}
    return message.model_copy(update={"response_metadata": metadata})


def inserted(message: BaseMessage) -> BaseMessage:
    """Return a message of the memory's own, which no transcript stores if a view is handed back."""
    return marked(message, inserted=True)


def is_inserted(message: BaseMessage) -> bool:
    """Return whether the memory has put a message into a view."""
    return bool(marks_of(message).get("inserted"))


def unmarked(message: BaseMessage, names: Iterable[str]) -> BaseMessage:
    """Return a message without some of the memory's metadata; unchanged if it has none."""
    marks, gone = marks_of(message), {*names}
    if gone.isdisjoint(marks):
        return message
    metadata = {key: value for key, value in message.response_metadata.items() if key != MARKS}
    if kept := {name: value for name, value in marks.items() if name not in gone}:
        metadata[MARKS] = kept
    return message.model_copy(update={"response_metadata": metadata})


def is_pinned(message: BaseMessage) -> bool:
    """Return whether the application pinned this message with the mark `pinned`."""
    return bool(message.response_metadata) and marks_of(message).get("pinned") is True


def call_ids(message: BaseMessage) -> list[str]:
    """Return the ids of the tool calls that an AI message makes, valid and invalid ones.

    A call without an id gets one derived from the message's id and its position there.
    """
    if not isinstance(message, AIMessage):
        return []
    calls = enumerate(calls_of(message))
    keys = [call.get("id") or derived_call_id(message.id, n) for n, call in calls]
    return [*keys, *(block["id"] for block in calls_in_content(message, keys))]


def calls_of(message: AIMessage) -> list[Any]:
    """Return the tool calls of an AI message, first the valid and then the invalid ones."""
    return [*message.tool_calls, *message.invalid_tool_calls]


def derived_call_id(key: str | None, number: int) -> str:
    """Return an id for a call, short and plain enough for every provider.

    Args:
        key: Id of the message of a call without one, or an id that is refused.
        number: Position of the call in the message, or number of the call with this id.
    """
    return f"call_{text_digest(f'{key}/{number}', 12)}"


def blank_call_ids(message: BaseMessage) -> list[str]:
    """Return the derived ids of the calls without one."""
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    return [derived_call_id(message.id, n) for n, call in enumerate(calls) if not call.get("id")]


def calls_in_content(message: AIMessage, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the `tool_use` blocks whose call is only in the content."""
    if isinstance(message.content, str):  # do not iterate over its characters
        return []
    return [
        block
        for block in message.content
        if isinstance(block, dict)
        and block.get("type") == "tool_use"
        and block.get("id")
        and block["id"] not in keys
    ]


def result_ids(message: BaseMessage) -> list[str]:
    """Return the ids of the calls that a message answers.

    A human message may contain results in Anthropic's form: blocks of type `tool_result`.
    """
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]
    if not isinstance(message.content, list) or role_of(message) != "human":
        return []
    blocks = (block for block in message.content if isinstance(block, dict))
    return [str(block.get("tool_use_id") or "") for block in blocks if is_result_block(block)]


def is_result_block(block: Any) -> bool:
    """Return whether a content block is the result of a tool call."""
    return isinstance(block, dict) and block.get("type") == "tool_result"


@dataclass(frozen=True, slots=True)
class Group:
    """The unit of every cut: one message, or an AI message with calls and all of their results.

    A message between a call and its late result belongs to the group, so a group is
    always a contiguous run in the transcript.
    """

    messages: tuple[BaseMessage, ...]

    @property
    def last_id(self) -> str:
        """Id of the last message, which is the value of a pointer that covers the group."""
        return self.messages[-1].id or ""


def groups(messages: Sequence[BaseMessage]) -> list[Group]:
    """Return the messages as groups, in order.

    A result belongs to the nearest run of AI messages before it. A call that is still open when
    the model speaks again stays unanswered, so one lost result can never merge a conversation
    into a single group.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> [len(g.messages) for g in groups([HumanMessage("hi"), AIMessage("hello")])]
        [1, 1]
    """
    starts: list[int] = []
    open_calls: dict[str, int] = {}
    blank: list[str] = []
    previous: Role | None = None
    for index, message in enumerate(messages):
        role = role_of(message)
        if role == "ai":
            if previous != "ai":
                open_calls.clear()
                blank.clear()
            open_calls.update(dict.fromkeys(call_ids(message), index))
            blank += blank_call_ids(message)
        starts.append(index)
        keys = [key or (blank.pop(0) if blank else "") for key in result_ids(message)]
        answers = [open_calls.pop(key) for key in keys if key in open_calls]
        if not answers and message.type.startswith("function") and previous == "ai":
            answers = [index - 1]
        if answers:
            while starts[-1] > min(answers):
                starts.pop()
        previous = role
    bounds = pairwise([*starts, len(messages)])
    return [Group(tuple(messages[start:end])) for start, end in bounds]


READ_MESSAGE = "read_message"
"""Name of the tool that opens a message by its reference."""

_SHORT = 6


REFERENCES = re.compile(r"(?:^|(?<=; ))\[([0-9a-f]{6,})\] ")
"""References at the beginning of a line of the log, and of each of its parts."""


def reference(key: str | None, digits: int = _SHORT) -> str:
    """Return the reference of the message with an id: the first hex digits of the id's hash.

    Example:
        >>> reference("m1")
        '743116'
    """
    return text_digest(key or "")[:digits]


def messages_named(messages: Sequence[BaseMessage], name: str) -> list[BaseMessage]:
    """Return the messages with a name: the one with that id, else those with that reference.

    Two messages may share a short reference; a longer one, up to 32 digits, distinguishes them.
    """
    found = [message for message in messages if message.id == name]
    if found or len(name) < _SHORT:
        return found
    digits = name.removeprefix("#").lower()
    return [m for m in messages if digits in {reference(key, len(digits)) for key in _ids_of(m)}]


def _ids_of(message: BaseMessage) -> list[str]:
    """Return the id of a message, and those of its results if they are shown separately."""
    key = message.id or ""
    return [key, *(f"{key}~{result}" for result in result_ids(message))]
