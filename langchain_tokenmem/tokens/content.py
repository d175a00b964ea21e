"""Token count of one message, by documented rules.

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
is counted once. Signatures, encrypted reasoning and media are never counted as text. Media is only
what a provider takes as such, by the type of its block and the place of the block: everything else
is text for the model, however it begins.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.block_types import CALL_BLOCKS, REASONING, TEXT
from langchain_tokenmem.tokens import blocks, media
from langchain_tokenmem.tokens.blocks import (
    as_list,
    as_mapping,
    first_of,
    inline_data,
    reported_reasoning,
)
from langchain_tokenmem.tokens.media import ImageRule
from langchain_tokenmem.tokens.schemas import compact_json

# OpenAI cookbook, "How to count tokens with tiktoken": tokens_per_message, tokens_per_name.
MESSAGE_FRAME = 3
NAME_FRAME = 1
TOOL_CALL_FRAME = 3
# Reasoning that only comes encrypted: 8 characters a token (base64 of a compressed text), at most
# this many. The real number stands in `usage_metadata` where the provider reports it.
HIDDEN_REASONING_CHARACTERS_PER_TOKEN = 8
HIDDEN_REASONING_MOST = 1_024

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
        >>> message_tokens(HumanMessage("hi"), counter.text)
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
        kind = blocks.kind_of(block) if isinstance(block, Mapping) else None
        rule: Callable[..., int] = self._RULES.get(kind, _MessageCounter._unknown)
        is_empty = kind in self._MEDIA and not blocks.has_media(block)
        return self._unknown(block, depth) if is_empty else rule(self, block, depth)

    def _plain(self, block: Mapping[str, Any], depth: int) -> int:
        text = first_of(block, "text", "data")
        if text is None and (data := inline_data(block)) is not None:
            return media.file_tokens(data, "text/plain")
        return self._block(text, depth + 1)

    def _call_block(self, block: Mapping[str, Any], _depth: int) -> int:
        return 0 if self._counted_already(block) else self._call(block.get("toolUse", block))

    def _result(self, block: Mapping[str, Any], depth: int) -> int:
        # What a tool answered is text for the model even where it looks like data.
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
        # A reply's own sound comes with its words, and it is the words that are sent again.
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
        return title + media.file_tokens(inline_data(block), blocks.mime_type_of(block))

    def _reasoning(self, value: Any, depth: int) -> int:
        """Count what the provider reported, once; else what can be read, or a bounded guess.

        A message that carries no reasoning is sent back without it, whatever its usage says.
        """
        if self._reported is not None:
            tokens, self._reported = self._reported, 0
            return tokens
        visible = self._visible_reasoning(value, depth)
        block = as_mapping(value)
        # A signature stands beside the text it signs, ciphertext in place of more than is shown.
        hidden = first_of(block, "encrypted_content", "data", "redactedContent")
        if hidden is None and not visible:
            hidden = block.get("signature")
        length = len(hidden) if isinstance(hidden, str | bytes) else 0
        guess = min(HIDDEN_REASONING_MOST, length // HIDDEN_REASONING_CHARACTERS_PER_TOKEN)
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
        """Count what no rule knows as text, with its keys; media only inside a tool's result."""
        if depth > _DEEPEST or value is None:
            return 0
        if isinstance(value, bytes | bytearray):
            return self._text(base64.b64encode(value).decode())
        if isinstance(value, list | tuple | set | frozenset):
            return sum(self._nested(part, depth + 1, has_media=has_media) for part in value)
        if isinstance(value, Mapping):
            has_media = has_media or blocks.may_hold_media(value)
            return sum(
                max(1, self._text(str(key))) + self._nested(part, depth + 1, has_media=has_media)
                for key, part in value.items()
                if key not in blocks.UNSEEN
            )
        return self._text(str(value))

    def _nested(self, value: Any, depth: int, *, has_media: bool) -> int:
        # Tool results hold blocks that have rules of their own.
        kind = blocks.kind_of(value) if isinstance(value, Mapping) else None
        if kind is None or (kind in self._MEDIA and not has_media):
            return self._unknown(value, depth, has_media=has_media)
        return self._block(value, depth)

    _MEDIA: ClassVar = frozenset([*blocks.PICTURES, *blocks.OTHER_MEDIA])
    _RULES: ClassVar[Mapping[str | None, Callable[..., int]]] = {
        **dict.fromkeys(TEXT | {"summary_text", "reasoning_text"}, _plain),
        **dict.fromkeys(REASONING | {"thought"}, _reasoning),
        **dict.fromkeys(CALL_BLOCKS | {"custom_tool_call"}, _call_block),
        **dict.fromkeys(["tool_result", "server_tool_result"], _result),
        **dict.fromkeys(["function_call_output", "custom_tool_call_output"], _result),
        **dict.fromkeys(["computer_call_output"], _result),
        **dict.fromkeys(blocks.IMAGES, _image),
        "image_generation_call": _generated_image,
        "compaction": _compaction,
        **dict.fromkeys(["audio", "input_audio", "audio_url"], _audio),
        **dict.fromkeys(["video", "video_url", "input_video"], _video),
        **dict.fromkeys(["file", "document", "input_file", "file_url"], _file),
    }


def _role(fields: Mapping[str, Any]) -> str:
    kind = str(fields.get("role") or fields.get("type") or "").lower().removesuffix("messagechunk")
    return _ROLES.get(kind, kind)
