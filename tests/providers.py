"""Chat models as strict as the providers: they raise on what the provider would refuse.

Written from the providers' documented rules, apart from `langchain_tokenmem.core`: OpenAI chat and
responses API, Anthropic messages API, Gemini generateContent, Bedrock Converse, and the chat
template of Mistral as vLLM and mistral-common run it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import Field

from tests.contract.chats import Talker

THINKING = {"thinking", "redacted_thinking"}


class RefusedError(ValueError):
    """HTTP 400."""


def refuse(condition: object, words: str) -> None:
    if condition:
        raise RefusedError(words)


def calls(message: BaseMessage) -> list[str]:
    if not isinstance(message, AIMessage):
        return []
    return [str(c["id"]) for c in (*message.tool_calls, *message.invalid_tool_calls)]


def blocks(message: BaseMessage) -> list[dict[str, Any]]:
    content = message.content
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def blank(message: BaseMessage) -> bool:
    return not message.text.strip() and not [b for b in blocks(message) if b["type"] != "text"]


def body_after_system(messages: list[BaseMessage], *, most_system: int) -> list[BaseMessage]:
    start = 0
    while start < len(messages) and isinstance(messages[start], SystemMessage):
        start += 1
    refuse(start > most_system, f"{start} system messages")
    body = messages[start:]
    refuse(any(isinstance(m, SystemMessage) for m in body), "system message in the middle")
    refuse(not body, "at least one message is required")
    return body


def check_results(body: list[BaseMessage]) -> None:
    """Every call is answered once, directly behind it; every result has its call there."""
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body:
        if isinstance(message, ToolMessage):
            key = message.tool_call_id
            refuse(key not in waiting, f"tool result {key} without its call directly before")
            waiting.remove(key)
            continue
        refuse(waiting, f"tool calls without results: {waiting}")
        waiting = calls(message)
        refuse(len(set(waiting)) < len(waiting), "two calls of one id in a message")
        refuse(seen & set(waiting), f"tool call ids used before: {seen & set(waiting)}")
        seen.update(waiting)
    refuse(waiting, f"tool calls without results: {waiting}")


def check_openai(messages: list[BaseMessage]) -> None:
    """platform.openai.com/docs/api-reference/chat and /responses (items and reasoning)."""
    refuse(not messages, "[] is too short - 'messages'")
    check_results(messages)
    for message in messages:
        kinds = [b["type"] for b in blocks(message)]
        said = isinstance(message, AIMessage) and not calls(message)
        refuse(said and blank(message), "content of an assistant message is null")
        alone = message.type == "ai" and kinds[-1:] == ["reasoning"] and not calls(message)
        refuse(alone, "reasoning item without its required following item")


def check_anthropic(messages: list[BaseMessage]) -> None:
    """docs.anthropic.com/en/api/messages; system texts have to stand together in front."""
    body = body_after_system(messages, most_system=8)
    refuse(not isinstance(body[0], HumanMessage), "first message must use the user role")
    refuse(isinstance(body[-1], AIMessage), "does not support assistant message prefill")
    check_results(body)
    for message in body:
        refuse(blank(message) and not calls(message) and message.type != "tool", "empty content")
        for block in blocks(message):
            refuse(block["type"] == "text" and not block["text"].strip(), "blank text block")
            if block["type"] == "thinking":
                refuse(not block.get("signature"), "thinking.signature: field required")
                own = message.response_metadata.get("model_provider", "anthropic")
                refuse(own != "anthropic", "Invalid `signature` in `thinking` block")


def check_gemini(messages: list[BaseMessage]) -> None:
    """ai.google.dev/api/generate-content: turns of function calls and responses."""
    body = body_after_system(messages, most_system=1)
    refuse(not isinstance(body[0], HumanMessage), "first content should be with role 'user'")
    refuse(isinstance(body[-1], AIMessage), "single turn requests end with a user role")
    check_results(body)
    for before, message in pairwise(body):
        refuse(
            calls(message) and isinstance(before, AIMessage),
            "function call turn comes immediately after a user or function response turn",
        )
        refuse(blank(message) and isinstance(message, AIMessage) and not calls(message), "no parts")


def check_bedrock(messages: list[BaseMessage]) -> None:
    """docs.aws.amazon.com/bedrock Converse: alternation, tool results inside a user turn."""
    body = body_after_system(messages, most_system=8)
    refuse(not isinstance(body[0], HumanMessage), "A conversation must start with a user message.")
    refuse(isinstance(body[-1], AIMessage), "A conversation must end with a user message.")
    check_results(body)
    for before, message in zip([None, *body], body, strict=False):
        same = before is not None and before.type == message.type and message.type != "tool"
        refuse(same, "A conversation must alternate between user and assistant roles.")
        empty = blank(message) and not calls(message) and message.type != "tool"
        refuse(empty, "The text field in the ContentBlock object is blank.")


def check_mistral(messages: list[BaseMessage]) -> None:
    """github.com/mistralai/mistral-common validator.py, and the templates of its models."""
    body = body_after_system(messages, most_system=1)
    refuse(not isinstance(body[0], HumanMessage), "conversation roles must alternate user first")
    last = isinstance(body[-1], (HumanMessage, ToolMessage))
    refuse(not last, "Expected last role User or Tool for serving")
    check_results(body)
    following = {"human": {"ai"}, "ai": {"human", "tool"}, "tool": {"ai", "tool"}}
    for before, message in pairwise(body):
        wrong = message.type not in following[before.type]
        refuse(wrong, f"Unexpected role {message.type!r} after role {before.type!r}")
        no_words = isinstance(message, AIMessage) and blank(message) and not calls(message)
        refuse(no_words, "Assistant message must have either content or tool_calls")


def problems(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the first thing that a strict provider would refuse in a request, if there is one.

    System text only in front, a human message first, every tool call directly followed by its
    results, no result without its call, no assistant message without content, no id twice.

    Example:
        >>> problems([HumanMessage("hi"), AIMessage("hello"), HumanMessage("more")])
        []
    """
    try:
        body = body_after_system(list(messages), most_system=8)
        refuse(not isinstance(body[0], HumanMessage), "the first message is not a human one")
        check_results(body)
        for message in body:
            silent = isinstance(message, AIMessage) and not calls(message) and blank(message)
            refuse(silent, f"message {message.id} is empty")
        ids = [message.id for message in messages if message.id]
        refuse(len(set(ids)) < len(ids), "a message id is repeated")
    except RefusedError as error:
        return [str(error)]
    return []


CHECKS: dict[str, Callable[[list[BaseMessage]], None]] = {
    "openai": check_openai,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "bedrock": check_bedrock,
    "mistral": check_mistral,
}
LS_PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "google_genai",
    "bedrock": "amazon_bedrock",
    "mistral": "mistral",
}


class StrictModel(Talker):
    """A scripted chat model that refuses what its provider would refuse.

    `script` holds the answers, in order; an exception in it is raised. Without a script every
    answer is "ok".
    """

    family: str = "openai"
    name_: str = ""
    script: list[Any] = Field(default_factory=list)

    @property
    def seen(self) -> list[list[BaseMessage]]:
        """Every request that was not refused, oldest first."""
        return self.requests

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = LS_PROVIDERS[self.family]
        return params

    def _answer(self, messages: list[BaseMessage], keywords: dict[str, Any]) -> AIMessage:
        CHECKS[self.family](messages)
        self.answer = self.script.pop(0) if self.script else "ok"
        return super()._answer(messages, keywords)
