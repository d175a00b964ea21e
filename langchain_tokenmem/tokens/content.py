"""Token counts of messages, by documented rules.

A message:

```
3                                   frame (OpenAI cookbook)
+ role                              "user", "assistant", "system", "tool", ...
+ content                           text, or the parts of every block
+ name + 1                          if the message has a name
+ 3 + name + arguments + id         per tool call, arguments as compact JSON
+ tool_call_id                      of a tool message
```

Ids are counted on purpose: some providers render them, and the promise is never to be over. What
occurs twice in a message (tool calls in `tool_calls`, in the content and in `additional_kwargs`)
is counted once. Signatures, encrypted reasoning and media are never counted as text. Media is only
what a provider accepts as such, by the type and the place of its block: everything else is text for
the model, whatever it begins with.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.block_types import CALL_BLOCKS, REASONING, TEXT, UNSEEN_KEYS
from langchain_tokenmem.tokens import media
from langchain_tokenmem.tokens.media import ImageRule

_UNSEEN = UNSEEN_KEYS | {"thoughtSignature", "thought_signature", "cachePoint"}
"""Keys that are never shown to the model as text."""


def kind_of(block: Mapping[str, Any]) -> str | None:
    """Return the type of a block; a name for the shapes that come without one."""
    kind = block.get("type")
    if kind in ("media", "image_url", "file", "document") or kind is None:
        major = mime_type_of(block).partition("/")[0]
        if major in ("image", "audio", "video"):
            return major
        if kind == "media":
            return "file"
    if isinstance(kind, str):
        return kind
    # Bedrock's Converse API and Gemini's parts name the block by its only key.
    return next((name for key, name in _UNTYPED.items() if key in block), None)


_UNTYPED = {
    "text": "text",
    "image": "image",
    "image_url": "image",
    "document": "document",
    "video": "video",
    "audio": "audio",
    "toolUse": "tool_use",
    "toolResult": "tool_result",
    "reasoning_content": "reasoning",
    "reasoningContent": "reasoning",
    "inline_data": "file",
    "inlineData": "file",
    "file_data": "file",
}


def mime_type_of(block: Mapping[str, Any]) -> str:
    """Return the MIME type that a block states, in any of its usual places."""
    for place in _places(block):
        kind = first_of(place, "mime_type", "media_type", "mimeType")
        if isinstance(kind, str):
            return kind
    data = inline_data(block)
    if isinstance(data, str) and data.startswith("data:"):
        return data[5:105].partition(",")[0].partition(";")[0]
    return ""


def inline_data(block: Mapping[str, Any]) -> str | bytes | None:
    """Return the inline data of a block; None if it only has a reference."""
    for place in _places(block):
        for key in ("data", "base64", "bytes", "file_data", "b64_json", *_URLS):
            value = place.get(key)
            if isinstance(value, bytes | bytearray):
                return bytes(value)
            if isinstance(value, str) and (key not in _URLS or value.startswith("data:")):
                return value
    return None


_URLS = ("url", "image_url", "file_url", "audio_url", "video_url")
_NESTS = (
    *("source", "inline_data", "inlineData", "image_url", "input_audio", "audio_url", "file"),
    *("image", "document", "video", "video_url", "audio", "file_url"),
)
_MEDIA_KEYS = (
    *("data", "base64", "bytes", "file_data", "b64_json", *_URLS, "s3Location"),
    *("file_uri", "fileUri", "uri", "video", "path"),
)
_MEDIA_NAMES = ("id", "file_id", "fileId")
# Files and audio may come as text, which is then what is counted.
_WORDS = ("text", "content", "transcript")
_IMAGES = ("image", "image_url", "input_image", "computer_screenshot")
_PICTURES = (*_IMAGES, "video", "video_url", "input_video")
_OTHER_MEDIA = (
    *("audio", "input_audio", "audio_url"),
    *("file", "document", "input_file", "file_url"),
)


def _places(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    places = [block]
    for key in _NESTS:
        if isinstance(nested := block.get(key), Mapping):
            places.append(nested)
            if isinstance(source := nested.get("source"), Mapping):
                places.append(source)
    return places


def has_media(block: Mapping[str, Any]) -> bool:
    """Return whether a block of media contains any, or refers to it."""
    kind = block.get("type")
    keys = _MEDIA_KEYS if kind is None else (*_MEDIA_KEYS, *_MEDIA_NAMES)
    if kind_of(block) not in _PICTURES:
        keys = (*keys, *_WORDS)
    return any(place.get(key) for place in _places(block) for key in keys)


def may_hold_media(block: Mapping[str, Any]) -> bool:
    """Return whether a provider takes media inside a block: a tool's result, or LangChain's own."""
    kind = block.get("type")
    return isinstance(kind, str) and (
        kind.endswith(("_result", "_output")) or kind == "non_standard"
    )


def first_of(block: Mapping[str, Any], *keys: str) -> Any:
    """Return the first value under one of the keys that is not None."""
    return next((block[key] for key in keys if block.get(key) is not None), None)


def reported_reasoning(fields: Mapping[str, Any]) -> int | None:
    """Return the reasoning tokens in a message's usage, or None if the provider counted none."""
    details = as_mapping(as_mapping(fields.get("usage_metadata")).get("output_token_details"))
    reported = details.get("reasoning")
    # Servers that do not count reasoning report 0 even with visible reasoning text.
    return reported if isinstance(reported, int) and reported > 0 else None


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is a mapping, else an empty one."""
    # Called for every message: `dict` and None avoid the costlier test of the abstract class.
    is_mapping = value is not None and isinstance(value, (dict, Mapping))
    return value if is_mapping else {}


def as_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


# OpenAI cookbook, "How to count tokens with tiktoken": tokens_per_message, tokens_per_name.
MESSAGE_FRAME = 3
NAME_FRAME = 1
TOOL_CALL_FRAME = 3
# Reasoning that only comes encrypted: 8 characters per token (base64 of a compressed text), at most
# this many. The real number is in `usage_metadata` if the provider reports it.
HIDDEN_REASONING_CHARACTERS_PER_TOKEN = 8
MAX_HIDDEN_REASONING = 1_024

_ROLES = {"human": "user", "ai": "assistant", "remove": ""}
_DEEPEST = 24


def message_tokens(
    message: BaseMessage, text: Callable[[str], int], image_rule: ImageRule = "largest"
) -> int:
    """Return the tokens of one message with its frame.

    Args:
        message: Any LangChain message.
        text: Counts the tokens of a text.
        image_rule: Formula that counts images.

    Returns:
        Tokens.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> message_tokens(HumanMessage("hi"), lambda text: 1)
        5
    """
    return _MessageCounter(vars(message), text, image_rule).message()


class _MessageCounter:
    """Walks over one message."""

    def __init__(
        self, fields: Mapping[str, Any], text: Callable[[str], int], image_rule: ImageRule
    ) -> None:
        self._fields = fields
        self._text = text
        self._image_rule = image_rule
        self._calls = as_list(fields.get("tool_calls")) + as_list(fields.get("invalid_tool_calls"))
        self._reported = reported_reasoning(fields)

    def message(self) -> int:
        fields = self._fields
        tokens = MESSAGE_FRAME + self._text(_role(fields)) + self._block(fields.get("content"), 0)
        if name := fields.get("name"):
            tokens += NAME_FRAME + self._text(str(name))
        if answered := fields.get("tool_call_id"):
            tokens += self._text(str(answered))
        extra = as_mapping(fields.get("additional_kwargs"))
        function = filter(None, [extra.get("function_call")])
        tokens += sum(map(self._call, self._calls or as_list(extra.get("tool_calls")) or function))
        thoughts = (extra.get("reasoning_content"), extra.get("reasoning"))
        reasoning = sum(self._reasoning(thought, 0) for thought in thoughts if thought)
        # OpenRouter's form of the same, which is sent back in its place.
        details = as_list(extra.get("reasoning_details"))
        tokens += max(reasoning, sum(self._reasoning(detail, 0) for detail in details))
        tokens += self._block(extra.get("refusal"), 0)
        if isinstance(audio := extra.get("audio"), Mapping):
            tokens += self._audio(audio, 0)
        return tokens

    def _call(self, call: Any) -> int:
        if not isinstance(call, Mapping):
            return TOOL_CALL_FRAME + self._unknown(call, 0)
        source = {**call, **as_mapping(call.get("function"))}
        arguments = first_of(source, "args", "arguments", "input", "partial_json")
        written = arguments if isinstance(arguments, str) else compact_json(arguments)
        tokens = TOOL_CALL_FRAME + self._text(str(source.get("name") or ""))
        tokens += self._text("" if arguments is None else written)
        return tokens + self._text(str(first_of(source, "call_id", "id", "toolUseId") or ""))

    def _block(self, block: Any, depth: int) -> int:
        if isinstance(block, str):
            return self._text(block)
        if block is None or depth > _DEEPEST:
            return 0
        if isinstance(block, list | tuple):
            return sum(self._block(part, depth + 1) for part in block)
        kind = kind_of(block) if isinstance(block, Mapping) else None
        rule: Callable[..., int] = self._RULES.get(kind, _MessageCounter._unknown)
        is_empty = kind in self._MEDIA and not has_media(block)
        return self._unknown(block, depth) if is_empty else rule(self, block, depth)

    def _plain(self, block: Mapping[str, Any], depth: int) -> int:
        text = first_of(block, "text", "data")
        if text is None and (data := inline_data(block)) is not None:
            return media.file_tokens(data, "text/plain")
        return self._block(text, depth + 1)

    def _call_block(self, block: Mapping[str, Any], _depth: int) -> int:
        return 0 if self._counted_already(block) else self._call(block.get("toolUse", block))

    def _result(self, block: Mapping[str, Any], depth: int) -> int:
        # What a tool answered is text for the model even if it looks like data.
        block = as_mapping(block.get("toolResult")) or block
        identity = first_of(block, "tool_use_id", "tool_call_id", "call_id", "toolUseId")
        answer = first_of(block, "content", "output")
        return self._text(str(identity or "")) + self._block(answer, depth + 1)

    def _video(self, block: Mapping[str, Any], _depth: int) -> int:
        return media.video_tokens(inline_data(block))

    def _image(self, block: Mapping[str, Any], _depth: int) -> int:
        detail = as_mapping(block.get("image_url")).get("detail") or block.get("detail")
        size = media.image_size(inline_data(block) or b"")
        return media.image_tokens(size, self._image_rule, low_detail=detail == "low")

    def _audio(self, block: Mapping[str, Any], depth: int) -> int:
        # A reply's own audio comes with its transcript, and only the transcript is sent again.
        if isinstance(transcript := block.get("transcript"), str) and transcript:
            return self._block(transcript, depth + 1)
        return media.audio_tokens(inline_data(block))

    def _file(self, block: Mapping[str, Any], depth: int) -> int:
        title = sum(
            self._text(value)
            for key in ("title", "context", "name", "filename")
            if isinstance(value := block.get(key), str)
        )
        source = as_mapping(block.get("source"))
        if source.get("type") in ("text", "content"):
            return title + self._block(first_of(source, "data", "content"), depth + 1)
        if isinstance(plain := block.get("text"), str):
            return title + self._text(plain)
        return title + media.file_tokens(inline_data(block), mime_type_of(block))

    def _reasoning(self, value: Any, depth: int) -> int:
        """Count what the provider reported, once; else what can be read, or a bounded guess.

        A message that carries no reasoning is sent back without it, whatever its usage says.
        """
        if self._reported is not None:
            tokens, self._reported = self._reported, 0
            return tokens
        visible = self._visible_reasoning(value, depth)
        block = as_mapping(value)
        # A signature accompanies the text it signs; ciphertext replaces more than is shown.
        hidden = first_of(block, "encrypted_content", "data", "redactedContent")
        if hidden is None and not visible:
            hidden = block.get("signature")
        length = len(hidden) if isinstance(hidden, str | bytes) else 0
        guess = min(MAX_HIDDEN_REASONING, length // HIDDEN_REASONING_CHARACTERS_PER_TOKEN)
        return max(visible, guess)

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
        call = as_mapping(block.get("toolUse", block))
        identity = first_of(call, "call_id", "id", "toolUseId")
        # OpenAI's `id` names the item (fc_...), its `call_id` is LangChain's id.
        key, same = (
            ("name", [call.get("name")]) if identity is None else ("id", [identity, call.get("id")])
        )
        return any(as_mapping(known).get(key) in same for known in self._calls)

    def _generated_image(self, block: Mapping[str, Any], depth: int) -> int:
        size = media.image_size(inline_data({"data": block.get("result")}) or b"")
        rest = {key: value for key, value in block.items() if key != "result"}
        return media.image_tokens(size, self._image_rule) + self._unknown(rest, depth)

    def _compaction(self, block: Mapping[str, Any], depth: int) -> int:
        hidden = len(block.get("encrypted_content") or "")
        return max(self._unknown(block, depth), hidden // HIDDEN_REASONING_CHARACTERS_PER_TOKEN)

    def _unknown(self, value: Any, depth: int, *, has_media: bool = False) -> int:
        """Count what no rule covers as text, with its keys; media only inside a tool's result."""
        if depth > _DEEPEST or value is None:
            return 0
        if isinstance(value, bytes | bytearray):
            return self._text(base64.b64encode(value).decode())
        if isinstance(value, list | tuple | set | frozenset):
            return sum(self._nested(part, depth + 1, has_media=has_media) for part in value)
        if isinstance(value, Mapping):
            has_media = has_media or may_hold_media(value)
            return sum(
                max(1, self._text(str(key))) + self._nested(part, depth + 1, has_media=has_media)
                for key, part in value.items()
                if key not in _UNSEEN
            )
        return self._text(str(value))

    def _nested(self, value: Any, depth: int, *, has_media: bool) -> int:
        # Tool results contain blocks that have their own rules.
        kind = kind_of(value) if isinstance(value, Mapping) else None
        if kind is None or (kind in self._MEDIA and not has_media):
            return self._unknown(value, depth, has_media=has_media)
        return self._block(value, depth)

    _MEDIA: ClassVar = frozenset([*_PICTURES, *_OTHER_MEDIA])
    _RULES: ClassVar[Mapping[str | None, Callable[..., int]]] = {
        **dict.fromkeys(TEXT | {"summary_text", "reasoning_text"}, _plain),
        **dict.fromkeys(REASONING | {"thought"}, _reasoning),
        **dict.fromkeys(CALL_BLOCKS | {"custom_tool_call"}, _call_block),
        **dict.fromkeys(["tool_result", "server_tool_result"], _result),
        **dict.fromkeys(["function_call_output", "custom_tool_call_output"], _result),
        **dict.fromkeys(["computer_call_output"], _result),
        **dict.fromkeys(_IMAGES, _image),
        "image_generation_call": _generated_image,
        "compaction": _compaction,
        **dict.fromkeys(["audio", "input_audio", "audio_url"], _audio),
        **dict.fromkeys(["video", "video_url", "input_video"], _video),
        **dict.fromkeys(["file", "document", "input_file", "file_url"], _file),
    }


def _role(fields: Mapping[str, Any]) -> str:
    kind = str(fields.get("role") or fields.get("type") or "").lower().removesuffix("messagechunk")
    return _ROLES.get(kind, kind)


def compact_json(value: Any) -> str:
    """Return JSON without blanks; what JSON cannot express is written as its `str`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are not strings, cycles, depth
        return str(value)
