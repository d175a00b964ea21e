"""Content blocks in the form that one provider takes; what it does not take becomes text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.core.block_types import (
    ANTHROPIC_SERVER_CALLS,
    ANTHROPIC_SERVER_RESULTS,
    CALL_BLOCKS,
    MEDIA,
    SERVER_BLOCKS,
    TEXT,
    UNSEEN_KEYS,
    BlockTypes,
    text_block,
)
from langchain_tokenmem.core.messages import block_text, is_blank_block, role_of

_HIDDEN_KEYS = UNSEEN_KEYS | {"id", "call_id", "tool_use_id", "tool_call_id", "container_id"}
_DATA = re.compile(r"(?:data:[^,]{0,99},)?[A-Za-z0-9+/_=\r\n-]{256,}")
_DATA_TEXT = "[data]"


def block_as_text(block: Mapping[str, Any]) -> str:
    """Return a block as text: its type, and what it says as JSON, without ids and ciphertext.

    Example:
        >>> block_as_text({"type": "web_search_call", "id": "ws_1", "action": {"query": "tea"}})
        '[web_search_call: {"action": {"query": "tea"}}]'
    """
    kind = str(block.get("type") or "")
    said = {key: _plain(value) for key, value in block.items() if key not in _HIDDEN_KEYS}
    if kind in MEDIA or not said:
        return block_text(block) or _DATA_TEXT
    if kind in {"", *TEXT} and isinstance(said.get("text"), str):
        return str(said["text"])
    written = json.dumps(said, ensure_ascii=False, default=str, skipkeys=True)
    return f"[{kind}: {written}]" if kind else written


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items() if key not in _HIDDEN_KEYS}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    is_data = isinstance(value, bytes) or (isinstance(value, str) and _DATA.fullmatch(value))
    return _DATA_TEXT if is_data else value


def fit_blocks(
    message: BaseMessage, types: BlockTypes, *, is_own: bool | None
) -> tuple[BaseMessage, list[str]]:
    """Return a message with the blocks that a provider takes, and the types that became text.

    Args:
        message: Of any role.
        types: What the provider takes.
        is_own: Whether a model of this provider wrote the message: then it takes what is in it,
            but for blocks that are known to be another's. None where the message does not say.
    """
    content = message.content
    if isinstance(content, str):
        return message, []
    if is_own and message.response_metadata.get("output_version") == "v1":
        return message, []  # in LangChain's own names, which the integration turns back
    role = role_of(message)
    taken = {"human": types.human, "ai": types.ai, "tool": types.tool}.get(role, frozenset(TEXT))
    whole = _whole_server_calls(content)
    fitted: list[Any] = []
    told: list[str] = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else "text"
        is_open = kind in _SERVER_PAIRS and _pair_key(block) not in whole
        is_others = is_own is False and role == "ai" and kind in SERVER_BLOCKS | MEDIA
        if kind in CALL_BLOCKS and kind not in taken:
            continue
        if isinstance(block, str):
            fitted.append(text_block(block))
        elif _form_of(block) in taken and not is_open and not is_others:
            fitted.append(block)
        elif is_own and role == "ai" and kind not in _KNOWN_BLOCKS:
            fitted.append(block)  # a kind that is newer than this list
        else:
            form = _adapted(block, taken) if kind in MEDIA and not is_others else None
            told += [] if form or kind in TEXT or kind is None else [str(kind)]
            fitted.append(form or text_block(block_as_text(block)))
    if content and fitted == content:
        return message, []
    shown = [block for block in fitted if not is_blank_block(block)]
    return message.model_copy(update={"content": shown or ""}), told


def _form_of(block: Mapping[str, Any]) -> Any:
    kind = block.get("type")
    if kind == "image" and "source" in block:
        return "image.source"
    if kind == "compaction" and "content" in block:
        return "compaction.content"
    return "file.file" if kind == "file" and "file" in block else kind


_KNOWN_BLOCKS = SERVER_BLOCKS | MEDIA | TEXT | {None}
_SERVER_PAIRS = ANTHROPIC_SERVER_CALLS | ANTHROPIC_SERVER_RESULTS


def _pair_key(block: Any) -> Any:
    return block.get("tool_use_id") or block.get("id")


def _whole_server_calls(content: Iterable[Any]) -> set[Any]:
    """Return the ids of Anthropic's server calls that stand beside their result."""
    made, answered = set(), set()
    for block in content:
        if isinstance(block, dict):
            kind = block.get("type")
            if kind in ANTHROPIC_SERVER_CALLS:
                made.add(block.get("id"))
            elif kind in ANTHROPIC_SERVER_RESULTS and block.get("tool_use_id") in made:
                answered.add(block.get("tool_use_id"))
    return answered


def _adapted(block: Mapping[str, Any], taken: frozenset[str]) -> dict[str, Any] | None:
    """Return a picture, sound or file in another form that the provider takes; None for none."""
    source = block.get("source")
    if isinstance(source, Mapping) and source.get("type") == "text":
        return text_block(str(source.get("data") or ""))
    url = _inline_url(block)
    if url is None:
        return None
    mime, _, data = url.removeprefix("data:").partition(";base64,")
    kind = mime.partition("/")[0]
    kind = kind if kind in {"image", "audio", "video"} else "file"
    if kind == "image" and kind not in taken and "image_url" in taken:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": kind, "base64": data, "mime_type": mime} if kind in taken else None


def _inline_url(block: Mapping[str, Any]) -> str | None:
    """Return the data of a block as a `data:` URL, in whatever form it holds them."""
    for place in (block, *(part for part in block.values() if isinstance(part, Mapping))):
        for value in place.values():
            if isinstance(value, str) and value.startswith("data:") and ";base64," in value:
                return value
        data = place.get("base64") or place.get("data")
        mime = place.get("mime_type") or place.get("media_type")
        if mime is None and "format" in place:
            mime = f"audio/{place['format']}"
        if isinstance(data, str) and isinstance(mime, str):
            return f"data:{mime};base64,{data}"
    return None


def as_plain_message(message: BaseMessage) -> BaseMessage:
    """Return a `ChatMessage` as the class of its role; any other message as it is."""
    if message.type != "chat":
        return message
    kinds: dict[str, type[BaseMessage]] = {
        "human": HumanMessage,
        "ai": AIMessage,
        "system": SystemMessage,
    }
    kind = kinds.get(role_of(message))
    if kind is None:
        return message
    fields = {"name": message.name, "response_metadata": message.response_metadata}
    return kind(
        message.content, id=message.id, additional_kwargs=message.additional_kwargs, **fields
    )
