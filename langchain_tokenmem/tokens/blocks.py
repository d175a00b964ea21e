"""Classification of content blocks: their kind, and the place of their data.

OpenAI (chat and responses), Anthropic, Bedrock, Gemini and LangChain's own standard blocks name the
same things differently; these functions know the names, `content` knows the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_tokenmem.core.block_types import UNSEEN_KEYS

UNSEEN = UNSEEN_KEYS | {"thoughtSignature", "thought_signature", "cachePoint"}
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
_MEDIA_KEYS = (
    *("data", "base64", "bytes", "file_data", "b64_json", *_URLS, "s3Location"),
    *("file_uri", "fileUri", "uri", "video", "path"),
)
_MEDIA_NAMES = ("id", "file_id", "fileId")
# Files and sound may come as their words, which then are what is counted.
_WORDS = ("text", "content", "transcript")
IMAGES = ("image", "image_url", "input_image", "computer_screenshot")
PICTURES = (*IMAGES, "video", "video_url", "input_video")
OTHER_MEDIA = (
    *("audio", "input_audio", "audio_url"),
    *("file", "document", "input_file", "file_url"),
)
_HOLDERS = ("_result", "_output")
_MORE_NESTS = ("image", "document", "video", "video_url", "audio", "file_url")


def _places(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    places = [block]
    for key in (*_NESTS, *_MORE_NESTS):
        if isinstance(nested := block.get(key), Mapping):
            places.append(nested)
            if isinstance(source := nested.get("source"), Mapping):
                places.append(source)
    return places


def has_media(block: Mapping[str, Any]) -> bool:
    """Return whether a block of media holds any, or names its place."""
    kind = block.get("type")
    keys = _MEDIA_KEYS if kind is None else (*_MEDIA_KEYS, *_MEDIA_NAMES)
    if kind_of(block) not in PICTURES:
        keys = (*keys, *_WORDS)
    return any(place.get(key) for place in _places(block) for key in keys)


def may_hold_media(block: Mapping[str, Any]) -> bool:
    """Return whether a provider takes media inside a block: a tool's result, or LangChain's own."""
    kind = block.get("type")
    return isinstance(kind, str) and (kind.endswith(_HOLDERS) or kind == "non_standard")


def first_of(block: Mapping[str, Any], *keys: str) -> Any:
    """Return the first value under one of the keys that is not None."""
    return next((block[key] for key in keys if block.get(key) is not None), None)


def reported_reasoning(fields: Mapping[str, Any]) -> int | None:
    """Return the reasoning tokens in a message's usage, None where the provider counted none."""
    details = as_mapping(as_mapping(fields.get("usage_metadata")).get("output_token_details"))
    reported = details.get("reasoning")
    # Servers that do not count reasoning report 0 beside visible reasoning text.
    return reported if isinstance(reported, int) and reported > 0 else None


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is a mapping, else an empty one."""
    # Asked for every message: `dict` and None spare the dearer test of the abstract class.
    is_mapping = value is not None and isinstance(value, (dict, Mapping))
    return value if is_mapping else {}


def as_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []
