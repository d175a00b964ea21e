"""Tokens of one message, by documented rules.

```
3                                   frame (OpenAI cookbook)
+ role                              "user", "assistant", "system", "tool", ...
+ content                           text, or the parts of every block
+ name + 1                          where the message has a name
+ 3 + name + arguments + id         per tool call, arguments as compact JSON
+ tool_call_id                      of a tool message
```

Ids are counted on purpose: some providers render them, and the promise is never to be over. What
stands twice in a message (tool calls in `tool_calls`, in the content and in `additional_kwargs`)
is counted once. Signatures, encrypted reasoning and inline data are never counted as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.tokens import media
from langchain_tokenmem.tokens.media import ImageRule
from langchain_tokenmem.tokens.schemas import compact_json

# OpenAI cookbook, "How to count tokens with tiktoken": tokens_per_message, tokens_per_name and the
# reply's priming with <|start|>assistant<|message|>.
MESSAGE_FRAME = 3
NAME_FRAME = 1
REPLY_PRIMING = 3
TOOL_CALL_FRAME = 3
# Reasoning that only comes encrypted: 8 characters a token (base64 of a compressed text), at most
# this many. The real number stands in `usage_metadata` where the provider reports it.
HIDDEN_REASONING_CHARACTERS_PER_TOKEN = 8
HIDDEN_REASONING_MOST = 1_024

_ROLES = {"human": "user", "ai": "assistant", "remove": ""}
_DEEPEST = 24
# A string longer than this of nothing but base64 characters is data, in a block of unknown type.
_SHORTEST_DATA = 256
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-\r\n]{256}")

_TEXT = frozenset(
    ["text", "input_text", "output_text", "text-plain", "summary_text", "reasoning_text"]
)
_REASONING = frozenset(
    ["reasoning", "thinking", "redacted_thinking", "reasoning_content", "thought"]
)
_CALLS = frozenset(
    [
        "tool_use",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "function_call",
        "custom_tool_call",
        "input_json_delta",
    ]
)
_IMAGES = frozenset(["image", "image_url", "input_image"])
_AUDIO = frozenset(["audio", "input_audio", "audio_url"])
_VIDEO = frozenset(["video", "video_url", "input_video"])
_FILES = frozenset(["file", "document", "input_file", "file_url"])
# Never shown to the model as text: bookkeeping, signatures and ciphertext.
_UNSEEN = frozenset(
    [
        "type",
        "index",
        "status",
        "signature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
        "encrypted_index",
        "encrypted_stdout",
        "extras",
        "annotations",
        "citations",
        "cache_control",
        "cachePoint",
    ]
)


def message_tokens(
    message: BaseMessage, text: Callable[[str], int], image_rule: ImageRule = "largest"
) -> int:
    """Return the tokens of one message with its frame.

    Args:
        message: Any LangChain message.
        text: Counts the tokens of a text.
        image_rule: Whose formula counts pictures.

    Returns:
        Tokens.

    Example:
        >>> message_tokens(HumanMessage("hi"), counter.text)
        5
    """
    fields = vars(message)
    return _Reader(fields, text, image_rule).message()


class _Reader:
    """Walks over one message."""

    def __init__(
        self, fields: Mapping[str, Any], text: Callable[[str], int], image_rule: ImageRule
    ) -> None:
        self._fields = fields
        self._text = text
        self._image_rule = image_rule
        self._extra: Mapping[str, Any] = _mapping(fields.get("additional_kwargs"))
        self._calls = [
            call
            for key in ("tool_calls", "invalid_tool_calls")
            for call in _sequence(fields.get(key))
        ]
        self._reported = _reported_reasoning(fields)

    def message(self) -> int:
        fields = self._fields
        tokens = MESSAGE_FRAME + self._text(_role(fields)) + self._block(fields.get("content"), 0)
        if name := fields.get("name"):
            tokens += NAME_FRAME + self._text(str(name))
        if answered := fields.get("tool_call_id"):
            tokens += self._text(str(answered))
        return tokens + self._all_calls() + self._reasoning_and_extras()

    def _all_calls(self) -> int:
        calls: Iterable[Any] = self._calls
        if not self._calls:
            calls = _sequence(self._extra.get("tool_calls"))
            if not calls and (function := self._extra.get("function_call")):
                calls = [function]
        return sum(map(self._call, calls))

    def _reasoning_and_extras(self) -> int:
        extra = self._extra
        tokens = self._reported or 0
        if not extra:
            return tokens
        if self._reported is None:
            tokens += self._reasoning(extra.get("reasoning_content"), 0)
            tokens += self._reasoning(extra.get("reasoning"), 0)
        tokens += self._block(extra.get("refusal"), 0)
        if isinstance(audio := extra.get("audio"), Mapping):
            tokens += self._block({**audio, "type": "audio"}, 0)
        return tokens

    def _call(self, call: Any) -> int:
        if not isinstance(call, Mapping):
            return TOOL_CALL_FRAME + self._unknown(call, 0)
        inner = call.get("function")
        source: Mapping[str, Any] = {**call, **inner} if isinstance(inner, Mapping) else call
        arguments = _first(source, "args", "arguments", "input", "partial_json")
        written = arguments if isinstance(arguments, str) else compact_json(arguments)
        tokens = TOOL_CALL_FRAME + self._text(str(source.get("name") or ""))
        tokens += self._text("" if arguments is None else written)
        return tokens + self._text(str(_first(source, "call_id", "id", "toolUseId") or ""))

    def _block(self, block: Any, depth: int) -> int:
        if isinstance(block, str):
            return self._text(block)
        if block is None or depth > _DEEPEST:
            return 0
        if isinstance(block, list | tuple):
            return sum(self._block(part, depth + 1) for part in block)
        if isinstance(block, Mapping):
            return self._typed(block, depth)
        return self._unknown(block, depth)

    def _typed(self, block: Mapping[str, Any], depth: int) -> int:
        kind = _kind(block)
        read = next((read for kinds, read in _RULES if kind in kinds), _Reader._unknown)
        return read(self, block, depth)

    def _plain(self, block: Mapping[str, Any], depth: int) -> int:
        return self._block(_first(block, "text", "data"), depth + 1)

    def _thought(self, block: Mapping[str, Any], depth: int) -> int:
        return self._reasoning(block, depth) if self._reported is None else 0

    def _call_block(self, block: Mapping[str, Any], _depth: int) -> int:
        return 0 if self._counted_already(block) else self._call(block.get("toolUse", block))

    def _video(self, block: Mapping[str, Any], _depth: int) -> int:
        return media.video_tokens(_inline(block))

    def _image(self, block: Mapping[str, Any], _depth: int) -> int:
        data = _inline(block)
        nested = block.get("image_url")
        detail = _mapping(nested).get("detail") or block.get("detail")
        size = media.image_size(data) if data is not None else None
        return media.image_tokens(size, self._image_rule, low_detail=detail == "low")

    def _audio(self, block: Mapping[str, Any], depth: int) -> int:
        # A reply's own sound comes with its words, and it is the words that are sent again.
        if isinstance(transcript := block.get("transcript"), str) and transcript:
            return self._block(transcript, depth + 1)
        return media.audio_tokens(_inline(block))

    def _file(self, block: Mapping[str, Any], depth: int) -> int:
        title = sum(
            self._text(value)
            for key in ("title", "context", "name", "filename")
            if isinstance(value := block.get(key), str)
        )
        source = _mapping(block.get("source"))
        if source.get("type") in ("text", "content"):
            return title + self._block(_first(source, "data", "content"), depth + 1)
        if isinstance(plain := block.get("text"), str):
            return title + self._text(plain)
        return title + media.file_tokens(_inline(block), _mime_type(block))

    def _reasoning(self, value: Any, depth: int) -> int:
        """Count what can be read; where there is nothing to read, a bounded guess."""
        visible = self._visible_reasoning(value, depth)
        if visible or not isinstance(value, Mapping):
            return visible
        hidden = _first(value, "encrypted_content", "data", "signature", "redactedContent")
        length = len(hidden) if isinstance(hidden, str | bytes) else 0
        return min(HIDDEN_REASONING_MOST, length // HIDDEN_REASONING_CHARACTERS_PER_TOKEN)

    def _visible_reasoning(self, value: Any, depth: int) -> int:
        if isinstance(value, str):
            return self._text(value)
        if depth > _DEEPEST:
            return 0
        if isinstance(value, list | tuple):
            return sum(self._visible_reasoning(part, depth + 1) for part in value)
        if not isinstance(value, Mapping):
            return 0
        keys = ("thinking", "reasoning", "reasoning_content", "reasoningText", "text", "summary")
        return sum(self._visible_reasoning(value.get(key), depth + 1) for key in (*keys, "content"))

    def _counted_already(self, block: Mapping[str, Any]) -> bool:
        if block.get("type") == "input_json_delta":
            return bool(self._calls)
        call = _mapping(block.get("toolUse", block))
        identity = _first(call, "call_id", "id", "toolUseId")
        if identity is None:
            return any(_mapping(known).get("name") == call.get("name") for known in self._calls)
        # OpenAI's `id` names the item (fc_...), its `call_id` is LangChain's id.
        return any(_mapping(known).get("id") in (identity, call.get("id")) for known in self._calls)

    def _unknown(self, value: Any, depth: int) -> int:
        """Count the short strings and numbers of a block that no rule knows."""
        if depth > _DEEPEST or value is None:
            return 0
        if isinstance(value, str):
            return media.UNKNOWN_DATA_TOKENS if _is_data(value) else self._text(value)
        if isinstance(value, bytes | bytearray):
            return media.UNKNOWN_DATA_TOKENS
        if isinstance(value, list | tuple | set | frozenset):
            return sum(self._nested(part, depth + 1) for part in value)
        if isinstance(value, Mapping):
            return sum(
                1 + self._nested(part, depth + 1)
                for key, part in value.items()
                if key not in _UNSEEN
            )
        return self._text(str(value))

    def _nested(self, value: Any, depth: int) -> int:
        # Tool results hold blocks that have rules of their own.
        known = isinstance(value, Mapping) and _kind(value) is not None
        return self._block(value, depth) if known else self._unknown(value, depth)


_RULES: tuple[tuple[frozenset[str], Callable[[_Reader, Mapping[str, Any], int], int]], ...] = (
    (_TEXT, _Reader._plain),  # noqa: SLF001  # the table of the class above
    (_REASONING, _Reader._thought),  # noqa: SLF001
    (_CALLS, _Reader._call_block),  # noqa: SLF001
    (_IMAGES, _Reader._image),  # noqa: SLF001
    (_AUDIO, _Reader._audio),  # noqa: SLF001
    (_VIDEO, _Reader._video),  # noqa: SLF001
    (_FILES, _Reader._file),  # noqa: SLF001
)


def _role(fields: Mapping[str, Any]) -> str:
    kind = str(fields.get("role") or fields.get("type") or "").lower().removesuffix("messagechunk")
    return _ROLES.get(kind, kind)


def _reported_reasoning(fields: Mapping[str, Any]) -> int | None:
    details = _mapping(_mapping(fields.get("usage_metadata")).get("output_token_details"))
    reported = details.get("reasoning")
    # Servers that do not count reasoning report 0 beside visible reasoning text.
    return reported if isinstance(reported, int) and reported > 0 else None


def _kind(block: Mapping[str, Any]) -> str | None:
    """Return the type of a block; a name for the shapes that come without one."""
    kind = block.get("type")
    if kind in ("media", "image_url", "file", "document") or kind is None:
        major = _mime_type(block).partition("/")[0]
        if major in ("image", "audio", "video"):
            return major
        if kind == "media":
            return "file"
    if isinstance(kind, str):
        return kind
    # Bedrock's Converse API and Gemini's parts name the block by its only key.
    for key, name in _UNTYPED.items():
        if key in block:
            return name
    return None


_UNTYPED = {
    "text": "text",
    "image": "image",
    "image_url": "image",
    "document": "document",
    "video": "video",
    "audio": "audio",
    "toolUse": "tool_use",
    "reasoning_content": "reasoning",
    "reasoningContent": "reasoning",
}


def _mime_type(block: Mapping[str, Any]) -> str:
    """Return the MIME type that a block states, in any of its usual places."""
    for place in _places(block):
        kind = _first(place, "mime_type", "media_type", "mimeType")
        if isinstance(kind, str):
            return kind
    data = _inline(block)
    if isinstance(data, str) and data.startswith("data:"):
        return data[5:105].partition(",")[0].partition(";")[0]
    return ""


def _inline(block: Mapping[str, Any]) -> str | bytes | None:
    """Return the inline data of a block; None where it only names a place."""
    for place in _places(block):
        for key in ("data", "base64", "bytes", "file_data", "b64_json", *_URLS):
            value = place.get(key)
            if isinstance(value, bytes | bytearray):
                return bytes(value)
            if isinstance(value, str) and (key not in _URLS or value.startswith("data:")):
                return value
    return None


_URLS = ("url", "image_url", "file_url", "audio_url", "video_url")
_NESTS = ("source", "inline_data", "inlineData", "image_url", "input_audio", "audio_url", "file")
_MORE_NESTS = ("image", "document", "video", "video_url", "audio", "file_url")


def _places(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    places = [block]
    for key in (*_NESTS, *_MORE_NESTS):
        if isinstance(nested := block.get(key), Mapping):
            places.append(nested)
            if isinstance(source := nested.get("source"), Mapping):
                places.append(source)
    return places


def _is_data(text: str) -> bool:
    return text[:5] == "data:" or (len(text) > _SHORTEST_DATA and _BASE64.match(text) is not None)


def _first(block: Mapping[str, Any], *keys: str) -> Any:
    return next((block[key] for key in keys if block.get(key) is not None), None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
