"""Classification of content blocks: their kind, and the place of their data.

OpenAI (chat and responses), Anthropic, Bedrock, Gemini and LangChain's own standard blocks name the
same things differently; these functions know the names, `content` knows the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# A string longer than this of nothing but base64 characters is data, in a block of unknown type.
_SHORTEST_DATA = 256
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-\r\n]{256}")

# Never shown to the model as text: bookkeeping, signatures and ciphertext.
UNSEEN = frozenset(
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
_MORE_NESTS = ("image", "document", "video", "video_url", "audio", "file_url")


def _places(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    places = [block]
    for key in (*_NESTS, *_MORE_NESTS):
        if isinstance(nested := block.get(key), Mapping):
            places.append(nested)
            if isinstance(source := nested.get("source"), Mapping):
                places.append(source)
    return places


def is_data(value: Any) -> bool:
    """Return whether a value is bytes, or a string of encoded data rather than text."""
    if not isinstance(value, str):
        return isinstance(value, bytes | bytearray)
    return value[:5] == "data:" or (len(value) > _SHORTEST_DATA and bool(_BASE64.match(value)))


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
