"""Conversion of messages to the form that a provider accepts.

There are two steps: `fit_message` changes single messages (their content blocks, reasoning of
another provider, server ids) once, when a conversation is parsed. `fit_list` changes neighbours in
the list that is shown, because folding makes new neighbours.

Some reasoning is valid only after the prefix with which it was produced. From Claude Fable 5.1 on,
Anthropic refuses a signed `thinking` block if the system text, the tools or any message before
it has changed since (HTTP 400). After such a change the reasoning of all earlier messages is
omitted; what is produced afterwards is valid again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
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
    joined_content,
    text_block,
)
from langchain_tokenmem.core.messages import (
    Role,
    block_text,
    inserted,
    is_blank_block,
    is_reasoning_block,
    marked,
    role_of,
    text_of,
    transcribed,
)
from langchain_tokenmem.core.profiles import LegalityProfile
from langchain_tokenmem.core.repair import RepairedGroup, place_after, says_nothing

_HIDDEN_KEYS = UNSEEN_KEYS | {"id", "call_id", "tool_use_id", "tool_call_id", "container_id"}
_DATA = re.compile(r"(?:data:[^,]{0,99},)?[A-Za-z0-9+/_=\r\n-]{256,}")
_DATA_TEXT = "[data]"


def block_as_text(block: Mapping[str, Any]) -> str:
    """Return a block as text: its type, and its content as JSON, without ids and ciphertext.

    Example:
        >>> block_as_text({"type": "web_search_call", "id": "ws_1", "action": {"query": "tea"}})
        '[web_search_call: {"action": {"query": "tea"}}]'
    """
    kind = str(block.get("type") or "")
    shown = {key: _plain(value) for key, value in block.items() if key not in _HIDDEN_KEYS}
    if kind in MEDIA or not shown:
        return block_text(block) or _DATA_TEXT
    if kind in {"", *TEXT} and isinstance(shown.get("text"), str):
        return str(shown["text"])
    written = json.dumps(shown, ensure_ascii=False, default=str, skipkeys=True)
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
    """Return a message with blocks that a provider accepts, and the types converted to text.

    Args:
        message: A message of any role.
        types: Types that the provider accepts.
        is_own: Whether a model of this provider wrote the message: then all of its blocks are
            accepted, except those known to be another provider's. None if unknown.
    """
    content = message.content
    if isinstance(content, str):
        return message, []
    if is_own and message.response_metadata.get("output_version") == "v1":
        return message, []  # in LangChain's own names, which the integration converts back
    role = role_of(message)
    taken = {"human": types.human, "ai": types.ai, "tool": types.tool}.get(role, frozenset(TEXT))
    whole = _whole_server_calls(content)
    fitted: list[Any] = []
    as_texts: list[str] = []
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
            as_texts += [] if form or kind in TEXT or kind is None else [str(kind)]
            fitted.append(form or text_block(block_as_text(block)))
    if content and fitted == content:
        return message, []
    shown = [block for block in fitted if not is_blank_block(block)]
    return message.model_copy(update={"content": shown or ""}), as_texts


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
    """Return the ids of Anthropic's server calls whose result is in the same content."""
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
    """Return a picture, sound or file in a form that the provider accepts, or None."""
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
    """Return the data of a block, in any of their forms, as a `data:` URL."""
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
    """Return a `ChatMessage` as the class for its role; any other message unchanged."""
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


BRIDGE_TEXT = "[No message was recorded here.]"
"""Text of a message between two that a provider does not accept as neighbours."""

CONTINUE_MESSAGE = inserted(HumanMessage("[Please go on.]", id="tm-closing"))
"""Last message if the assistant spoke last and the provider requires an input."""

BLANK_TEXT = "[empty message]"
"""Text of a human message without content if a provider refuses it."""

_CACHE_MARK = "cache_control"
_SERVER_IDS = ("rs_", "msg_", "fc_", "resp_", "ws_", "ci_", "mcp_")


def fit_message(message: BaseMessage, profile: LegalityProfile, warnings: list[str]) -> BaseMessage:
    """Return a message without the parts that the provider refuses; the same object if none.

    Reasoning is removed or kept as a whole, never in part.

    Args:
        message: An original message of the application.
        profile: Requirements of the provider.
        warnings: List to which warnings about blocks shown as text are added.
    """
    fitted = message
    if profile.blocks is not None:
        plain = as_plain_message(message)
        fitted, kinds = fit_blocks(plain, profile.blocks, is_own=_is_own(plain, profile))
        if kinds:
            named = ", ".join(dict.fromkeys(kinds))
            # Without the message's id: a log has it once, not once for each picture.
            warnings.append(f"Content of type {named} is shown as text to this provider.")
    if profile.refuses_blank:
        fitted = _without_blanks(fitted)
    if profile.not_in_names and fitted.name and role_of(fitted) != "tool":
        name = re.sub(profile.not_in_names, "_", fitted.name)
        fitted = fitted if name == fitted.name else fitted.model_copy(update={"name": name})
    if not isinstance(fitted, AIMessage):
        return fitted
    if not _is_own(fitted, profile):
        fitted = transcribed(fitted)
    if profile.drops_foreign_reasoning and _is_own(fitted, profile) is False:
        fitted = without_reasoning(fitted)
    if profile.pairs_reasoning:
        fitted = _without_last_reasoning(fitted)
    if profile.strips_server_ids:
        fitted = _without_server_ids(fitted)
    return fitted


def _without_blanks(message: BaseMessage) -> BaseMessage:
    """Return the message without blank texts; a human one keeps at least one text."""
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_blank_block(block)]
    elif role_of(message) == "ai" and not content.strip():
        content = ""
    if role_of(message) == "human" and not text_of(message).strip():
        content = BLANK_TEXT
    elif content == message.content:
        return message
    return message.model_copy(update={"content": content or ""})


def _is_own(message: BaseMessage, profile: LegalityProfile) -> bool | None:
    """Return whether the provider's own model wrote a message; None if unknown."""
    provider = message.response_metadata.get("model_provider")
    if not isinstance(provider, str) or not profile.providers:
        return None
    return provider.startswith(profile.providers)


def _without_last_reasoning(message: AIMessage) -> AIMessage:
    content: Any = message.content
    if isinstance(content, str) or message.tool_calls or message.invalid_tool_calls:
        return message
    end = len(content)
    while end and is_reasoning_block(content[end - 1]):
        end -= 1
    return message if end == len(content) else message.model_copy(update={"content": content[:end]})


def _without_server_ids(message: AIMessage) -> AIMessage:
    content: Any = message.content
    if isinstance(content, list):
        blocks = [_without_id(block) for block in content]
        content = [block for block in blocks if block is not None] or ""
    metadata = {key: value for key, value in message.response_metadata.items() if key != "id"}
    if content == message.content and metadata == message.response_metadata:
        return message
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def _without_id(block: Any) -> Any:
    """Return a block without its server id; None for reasoning that has nothing else."""
    if not isinstance(block, dict) or not str(block.get("id") or "").startswith(_SERVER_IDS):
        return block
    if is_reasoning_block(block) and not block.get("encrypted_content"):
        return None
    return {key: value for key, value in block.items() if key != "id"}


def fit_list(messages: Sequence[BaseMessage], profile: LegalityProfile) -> list[BaseMessage]:
    r"""Return the messages after the system text in the form that the profile requires.

    Example:
        >>> from langchain_tokenmem.core.profiles import profile_named
        >>> two = [HumanMessage("One.", id="a"), HumanMessage("Two.", id="b")]
        >>> [message.content for message in fit_list(two, profile_named("strict"))]
        ['One.\n\nTwo.']
    """
    body: list[BaseMessage] = []
    for message in messages:
        role = role_of(message)
        before = role_of(body[-1]) if body else None
        if profile.alternates and role == before and role in {"human", "ai"}:
            if _is_mergeable(body[-1], message):
                body[-1] = _merged(body[-1], message)
                continue
            body.append(_bridge("ai" if role == "human" else "human", message))
        elif profile.answers_results and before == "tool" and role == "human":
            body.append(_bridge("ai", message))
        body.append(message)
    if profile.ends_with_input and body and role_of(body[-1]) == "ai":
        body.append(CONTINUE_MESSAGE)
    return body


def _bridge(role: Role, before: BaseMessage) -> BaseMessage:
    kind = AIMessage if role == "ai" else HumanMessage
    return inserted(kind(BRIDGE_TEXT, id=f"{before.id}~bridge"))


def _is_mergeable(first: BaseMessage, second: BaseMessage) -> bool:
    """Return whether two contents can be joined without rewriting either.

    Two texts can, two lists of blocks, and in human messages also a text and a list; the blocks of
    an assistant have an order of their own.
    """
    if type(first) is not type(second):
        return False
    kinds = {type(first.content), type(second.content)}
    writers = {m.response_metadata.get("model_provider") for m in (first, second)}
    return kinds == {str} or (len(writers) == 1 and (kinds == {list} or role_of(first) == "human"))


def _merged(first: BaseMessage, second: BaseMessage) -> BaseMessage:
    """Return two neighbours of one role as one message, with the id of the newer."""
    content = joined_content([first.content, second.content])
    extras = {**first.additional_kwargs, **second.additional_kwargs}
    update = {"content": content, "additional_kwargs": extras}
    return marked(second.model_copy(update=update), cut=True)  # not the words of the newer one


def limit_cache_marks(messages: Sequence[BaseMessage], most: int) -> list[BaseMessage]:
    """Return the messages with at most `most` `cache_control` marks; the newest stay."""
    left = most
    limited: list[BaseMessage] = []
    for message in reversed(messages):
        content: Any = message.content
        if isinstance(content, list) and any(map(_is_marked, content)):
            blocks = []
            for block in reversed(content):
                if _is_marked(block) and left <= 0:
                    block = {k: v for k, v in block.items() if k != _CACHE_MARK}  # noqa: PLW2901
                elif _is_marked(block):
                    left -= 1
                blocks.append(block)
            content = blocks[::-1]
        same = content == message.content
        limited.append(message if same else message.model_copy(update={"content": content}))
    return limited[::-1]


def _is_marked(block: Any) -> bool:
    return isinstance(block, dict) and _CACHE_MARK in block


def cache_marks_of(tools: Iterable[Any] | None, settings: Mapping[str, Any]) -> int:
    """Return the number of `cache_control` marks of tools, and of the request as a whole."""
    forms = (
        tool if isinstance(tool, dict) else getattr(tool, "extras", None) for tool in tools or ()
    )
    return sum(map(_is_marked, forms)) + bool(settings.get(_CACHE_MARK))


REASONING_KWARGS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})

_UNBOUND = re.compile(r"claude-(?:instant|v?[1-4]\b|[a-z]+-(?:[34]\b|preview|5(?![-.]\d(?!\d))))")
"""Names of Claude models older than the rule: up to 4.x, and 5 without a minor version."""


def binds_reasoning(model: str) -> bool:
    """Return whether a model's reasoning is bound to its prefix, judging by the model's name.

    Example:
        >>> [binds_reasoning(name) for name in ("claude-fable-5-1", "claude-opus-5", "gpt-5")]
        [True, False, False]
    """
    return "claude" in model.lower() and not _UNBOUND.search(model.lower())


def has_bound_reasoning(message: BaseMessage) -> bool:
    """Return whether a message contains reasoning that is bound to its prefix.

    This depends on the model that wrote it. If unnamed, signed thinking counts as bound.
    """
    if not isinstance(message, AIMessage):
        return False
    content, extras = message.content, message.additional_kwargs
    if isinstance(content, str) and not extras:
        return False
    blocks = [*filter(is_reasoning_block, content)] if isinstance(content, list) else []
    metadata = message.response_metadata
    model = str(metadata.get("model_name") or metadata.get("model") or "")
    if "claude" in model.lower():
        return binds_reasoning(model) and bool(blocks or REASONING_KWARGS & extras.keys())
    is_google = str(metadata.get("model_provider")).startswith("google")
    return not is_google and any(map(_is_signed, blocks))


def _is_signed(block: Any) -> bool:
    nested = block.get("reasoning_content")  # in Bedrock's form
    held = [block, nested if isinstance(nested, dict) else {}]
    return block.get("type") == "redacted_thinking" or any(
        part.get("signature") or part.get("redacted_content") for part in held
    )


def without_reasoning(message: AIMessage) -> AIMessage:
    """Return a message without reasoning; the same object if it has none."""
    extras = message.additional_kwargs
    kept = {key: value for key, value in extras.items() if key not in REASONING_KWARGS}
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_reasoning_block(block)] or ""
    if content == message.content and len(kept) == len(extras):
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": kept})


def without_bound_reasoning(
    groups: tuple[RepairedGroup, ...], last: str | None
) -> tuple[RepairedGroup, ...]:
    """Return groups without the bound reasoning of messages up to `last`.

    Args:
        groups: Groups of a conversation, oldest first.
        last: Id of the last message whose reasoning is left out. If it is in no group, it is
            covered by the summary, and all groups are newer.
    """
    end = place_after(groups, last)
    return (*map(_without_bound, groups[:end]), *groups[end:]) if end else groups


def _without_bound(group: RepairedGroup) -> RepairedGroup:
    shown = [
        without_reasoning(message)
        if isinstance(message, AIMessage) and has_bound_reasoning(message)
        else message
        for message in group.messages
    ]
    return group.showing([message for message in shown if not says_nothing(message)])
