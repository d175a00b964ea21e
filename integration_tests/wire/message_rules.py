"""What is refused in a list of messages where no integration of the provider is installed here.

For Bedrock's Converse, the validator of mistral-common, templates of local models, and the ground
that all of them share. The order of roles and the pairing of calls are checked by
`tests/providers.py`, written from the same sources; here it is the blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.providers import RefusedError, body_after_system, check_bedrock, check_mistral
from tests.providers import check_results as check_pairs

BEDROCK_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CALLS = {"tool_use", "tool_call", "function_call"}  # rebuilt from `tool_calls` by each integration
THOUGHTS = {"thinking", "reasoning", "reasoning_content", "redacted_thinking"}
BLOCKS = {
    # langchain-aws, _lc_content_to_bedrock
    "bedrock": {"text", "image", "image_url", "document", "file", "video", "audio", *THOUGHTS},
    # docs.mistral.ai: chat completion, content chunks
    "mistral": {"text", "image_url", *THOUGHTS},
    # chat templates take text, and pictures where the model sees
    "strict": {"text", "image_url", "image", *THOUGHTS},
}


def block_faults(messages: Sequence[BaseMessage], profile: str) -> list[str]:
    faults = []
    for message in messages:
        if type(message) not in {HumanMessage, AIMessage, ToolMessage} and message.type != "system":
            faults.append(f"a message of type {type(message).__name__}")
        if isinstance(message.content, str):
            continue
        for block in message.content:
            kind = "text" if isinstance(block, str) else block.get("type")
            allowed = BLOCKS[profile] | (CALLS if message.type == "ai" else set())
            if kind not in allowed:
                faults.append(f"{message.type}: content block {kind!r}")
    return faults


def call_faults(messages: Sequence[BaseMessage]) -> list[str]:
    """Calls as `toolUse` holds them: a pattern for names and ids, and an object of arguments."""
    faults = []
    for message in messages:
        if isinstance(message, AIMessage):
            faults += [f"arguments are no object: {c}" for c in message.invalid_tool_calls]
            for call in message.tool_calls:
                wrong = [v for v in (call["id"], call["name"]) if not BEDROCK_ID.fullmatch(v or "")]
                faults += [f"toolUse: {value!r} does not match the pattern" for value in wrong]
    return faults


def common_faults(messages: Sequence[BaseMessage]) -> list[str]:
    try:
        body = body_after_system(list(messages), most_system=1)
        check_pairs(body)
    except RefusedError as error:
        return [str(error)]
    return [] if body[0].type in {"human", "chat"} else ["first message is not a human one"]


def message_faults(messages: Sequence[BaseMessage], profile: str) -> list[str]:
    """Return what would be refused, one sentence for each fault."""
    if profile == "common":
        return common_faults(messages)
    try:
        (check_bedrock if profile == "bedrock" else check_mistral)(list(messages))
    except RefusedError as error:
        return [str(error)]
    named = call_faults(messages) if profile in {"bedrock", "mistral"} else []
    return [*block_faults(messages, profile), *named]
