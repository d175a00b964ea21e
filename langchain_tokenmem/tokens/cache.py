"""Cache of token counts by content.

Messages are mutable, so a message's identity says nothing: the key holds what is counted, and not
the message's id. For plain text that costs one tuple (Python keeps the hash of a string with the
string); for blocks and tool calls one JSON dump.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import orjson
from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import ForkSafeLock
from langchain_tokenmem.tokens.blocks import as_mapping, reported_reasoning
from langchain_tokenmem.tokens.schemas import openai_tool

_LONGEST_KEPT = 64
"""Characters from which on a text is keyed by length and hash: the cache keeps no texts alive."""


class CountCache:
    """A bounded, thread-safe map from content to tokens.

    Two generations instead of a linked list: a hit is one or two dict look-ups without a lock,
    which is 8 times cheaper than an LRU in Python (and a view looks up thousands of messages). When
    the young generation is full it becomes the old one, and what nobody asked for is forgotten.

    Full of messages it takes 8 MB; with their texts, and twice the entries, it took 37 MB, most of
    what a server grew by in its first 20,000 turns.

    Args:
        size: Entries per generation; at most twice as many are kept, and the `size` entries used
            last are always among them.

    Example:
        >>> cache = CountCache(1_000)
        >>> cache.put("key", 5)
        >>> cache.get("key")
        5
    """

    def __init__(self, size: int = 16_384) -> None:
        self._size = size
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}
        self._turning = ForkSafeLock()

    def get(self, key: Hashable) -> Any:
        """Return the value of a key, or None."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value (not None) under a key."""
        if len(self._young) >= self._size:
            with self._turning:
                if len(self._young) >= self._size:
                    self._old, self._young = self._young, {}
        self._young[key] = value

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


def message_key(message: BaseMessage) -> Hashable:
    """Return the key of a message; it can raise for what no provider would take."""
    fields = message.__dict__
    content = fields.get("content")
    if (
        type(content) is not str
        or fields.get("tool_calls")
        or fields.get("invalid_tool_calls")
        or fields.get("additional_kwargs")
    ):
        return _structured_key(fields)
    kind = fields.get("role") or fields.get("type")
    text = content if len(content) <= _LONGEST_KEPT else text_key(content)
    return kind, text, fields.get("name"), fields.get("tool_call_id")


def text_key(text: str) -> Hashable:
    """Return a small key for a long text.

    Python's string hash (SipHash, keyed per process, 64 bits) is computed once per string object;
    a digest would be computed on every look-up. A collision would need equal lengths as well and
    would cost one wrong count.
    """
    return len(text), hash(text)


_COUNTED = ("content", "role", "type", "name", "tool_call_id", "tool_calls", "invalid_tool_calls")
_COUNTED_EXTRAS = [
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "audio",
]


def _structured_key(fields: Mapping[str, Any]) -> Hashable:
    """Return the key of a message with blocks, tool calls or extras."""
    counted = [fields.get(key) for key in _COUNTED]
    counted.append(reported_reasoning(fields))
    if extra := as_mapping(fields.get("additional_kwargs")):
        counted += [extra.get(key) for key in _COUNTED_EXTRAS]
    written = to_json(counted)
    return written if len(written) <= _LONGEST_KEPT else (len(written), hash(written))


def to_json(value: Any) -> bytes | str:
    """Return a value as JSON, or as its `repr` where JSON cannot hold it (surrogates, cycles)."""
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# Parts of a message that no provider is sent.
_NOT_SENT = {"id", "response_metadata", "usage_metadata", "artifact"}


def request_digest(
    messages: Sequence[BaseMessage], tools: Sequence[Any] | None, *around: str
) -> bytes:
    """Return the hash of a request: of everything in it that a provider may be sent.

    Args:
        messages: Its messages.
        tools: Its tools.
        around: What else tells one request from another: provider, model.
    """
    sent = [
        {name: value for name, value in vars(message).items() if name not in _NOT_SENT}
        for message in messages
    ]
    written = to_json([around, sent, [*map(openai_tool, tools or ())]])
    if isinstance(written, str):
        written = written.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(written, digest_size=16).digest()
