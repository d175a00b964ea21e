"""Types of content blocks that a provider accepts, by the role of the message.

Sources: the providers' API references, and what LangChain's integrations make of a block before
they send it: langchain-openai, -anthropic, -google-genai, -aws, -mistralai and -ollama, as of
November 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TEXT = frozenset({"text", "text-plain", "input_text", "output_text"})
PICTURES = frozenset({"image", "image_url"})
REASONING = frozenset({"reasoning", "thinking", "redacted_thinking", "reasoning_content"})

CALL_BLOCKS = frozenset(
    {
        *("tool_use", "tool_call", "function_call", "tool_call_chunk"),
        *("invalid_tool_call", "input_json_delta"),
    }
)
"""Blocks that repeat the calls in `tool_calls`; integrations rebuild them from there."""

MEDIA = frozenset(
    {
        *("image", "image_url", "input_image", "audio", "input_audio", "audio_url", "media"),
        *("video", "video_url", "file", "input_file", "document", "image_generation_call"),
    }
)
"""Blocks whose content is not text."""

UNSEEN_KEYS = frozenset(
    {
        *("type", "index", "status", "signature", "extras", "cache_control", "annotations"),
        *("citations", "encrypted_content", "encrypted_index", "encrypted_stdout"),
    }
)
"""Keys of a block that are never shown as text: bookkeeping, signatures and ciphertext."""

OPENAI_SERVER_CALLS = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "computer_call"),
        *("mcp_call", "mcp_list_tools", "mcp_approval_request", "custom_tool_call"),
        *("image_generation_call", "tool_search_call", "tool_search_output", "refusal"),
        *("apply_patch_call", "apply_patch_call_output", "compaction"),
    }
)
ANTHROPIC_SERVER_RESULTS = frozenset(
    {
        *("web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
        *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        *("tool_search_tool_result", "mcp_tool_result", "advisor_tool_result"),
    }
)
ANTHROPIC_SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
GEMINI_SERVER_CALLS = frozenset({"executable_code", "code_execution_result"})
SERVER_BLOCKS = (
    OPENAI_SERVER_CALLS | ANTHROPIC_SERVER_CALLS | ANTHROPIC_SERVER_RESULTS | GEMINI_SERVER_CALLS
)
"""Blocks of tools that run on a provider's server."""


@dataclass(frozen=True, slots=True)
class BlockTypes:
    """Types of content blocks that a provider accepts.

    `image.source` is a picture in Anthropic's form, `file.file` a file in OpenAI's; without
    the dot they are LangChain's own forms. `compaction.content` is a summary by Anthropic's server,
    `compaction` one by OpenAI's, which has only `encrypted_content`.

    Attributes:
        human: In human messages.
        ai: In the model's own messages.
        tool: In results of tools.
    """

    human: frozenset[str]
    ai: frozenset[str]
    tool: frozenset[str]


_PLAIN = frozenset({"text"})
OPENAI = BlockTypes(
    human=_PLAIN | PICTURES | {"image.source", "input_audio", "audio", "file", "file.file"},
    ai=_PLAIN | {"output_text"} | REASONING | OPENAI_SERVER_CALLS | {"function_call", "tool_use"},
    tool=_PLAIN | {"image_url"},
)
ANTHROPIC = BlockTypes(
    human=_PLAIN | PICTURES | {"image.source", "text-plain", "file", "document", "search_result"},
    ai=_PLAIN
    | REASONING
    | ANTHROPIC_SERVER_CALLS
    | ANTHROPIC_SERVER_RESULTS
    | {"tool_use", "compaction.content"},
    tool=_PLAIN | PICTURES | {"image.source", "document", "search_result", "tool_reference"},
)
GEMINI = BlockTypes(
    human=_PLAIN | PICTURES | {"audio", "video", "file", "media"},
    ai=_PLAIN | REASONING | GEMINI_SERVER_CALLS | {"image_url", "function_call_signature"},
    tool=_PLAIN | PICTURES | {"audio", "video", "file"},
)
BEDROCK = BlockTypes(
    human=_PLAIN | PICTURES | {"image.source", "document", "file", "video"},
    ai=_PLAIN | REASONING | {"tool_use"},
    tool=_PLAIN | PICTURES | {"image.source", "document", "json"},
)
MISTRAL = BlockTypes(
    human=_PLAIN | {"image_url"}, ai=_PLAIN | REASONING, tool=_PLAIN | {"image_url"}
)
STRICT = BlockTypes(human=_PLAIN | PICTURES, ai=_PLAIN | REASONING, tool=_PLAIN | PICTURES)


def text_block(text: str) -> dict[str, Any]:
    """Return a text as a content block."""
    return {"type": "text", "text": text}


def has_media(content: str | list[Any]) -> bool:
    """Return whether content has a picture, a sound or a file."""
    blocks = content if isinstance(content, list) else ()
    return any(isinstance(block, dict) and block.get("type") in MEDIA for block in blocks)


def blocks_of(content: str | list[Any]) -> list[Any]:
    """Return content as a list of blocks; the list is empty for an empty text."""
    if isinstance(content, str):
        return [text_block(content)] if content else []
    return [*content]


def joined_content(parts: Sequence[str | list[Any]], *, as_blocks: bool = False) -> str | list[Any]:
    """Return contents as one: as a text if all of them are texts, else as blocks.

    Args:
        parts: The contents, in order.
        as_blocks: Whether texts become blocks, too.
    """
    texts = [part for part in parts if isinstance(part, str)]
    if as_blocks or len(texts) < len(parts):
        return [block for part in parts for block in blocks_of(part)]
    return "\n\n".join(filter(None, texts))
