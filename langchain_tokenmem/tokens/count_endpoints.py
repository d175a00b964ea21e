"""Endpoints of providers that count a whole request, as LangChain's chat models reach them.

None of this could be tried on a paid API. The tests call the integrations as they are installed
from the index, against local servers that speak these endpoints
(`integration_tests/test_count_endpoints.py`): what is sent is checked, and that an answer is taken
as it comes. That the numbers are those of a later bill is what the providers say.

| class | asked | beside it |
|---|---|---|
| `ChatAnthropic` | `/v1/messages/count_tokens` with system text and tools | |
| `ChatGoogleGenerativeAI` | `:countTokens`, once over the whole request | see `_ask_google` |
| `ChatVertexAI` | `countTokens` | the class drops system text and tools: the first goes as a human message, tools are estimated |
| `ChatBedrockConverse`, `ChatBedrock` | `/model/{id}/count-tokens` with system text, models that have it | tools are estimated |
| `ChatAnthropicBedrock` | nobody: its SDK refuses | |
| others | the class's own `get_num_tokens_from_messages`, if it has one | tools are estimated where it takes none |
"""  # noqa: E501  rows of a table

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.core.chat_models import model_name, models_of

Ask = Callable[[Sequence[BaseMessage], Sequence[Any] | None, float], int]
"""Asks for the tokens of messages and tools; how long to try, in seconds, is a wish."""

# The inherited method ignores tools and loads GPT-2; OpenAI's counts with tiktoken on this machine,
# which downloads, and fetches pictures.
_NOT_ASKED = ("langchain_core", "langchain_openai", "langchain_community.chat_models.openai")
_GOOGLE, _VERTEX, _ANTHROPIC = (
    "langchain_google_genai",
    "langchain_google_vertexai",
    "langchain_anthropic",
)
_REMOTE = ("http://", "https://", "gs://")

MOST_TOKENS = 100_000_000
"""Largest answer that is a count of a request: no window is as large."""

PROVIDER_ACCURACY = 0.02
"""Margin of exact counts: Anthropic calls its counts estimates that "may differ by a small amount"
(docs, "Token counting"). Not measured here: the endpoints ask for an account."""


@dataclass(frozen=True)
class CountEndpoint:
    """A way to have a request counted.

    Attributes:
        provider: Name of the provider, as LangChain's class gives it.
        model: Name of the model.
        ask: Asks it; raises whatever the integration raises.
        counts_tools: Whether its answer has the tools in it.
        fetches_media: Whether the integration fetches pictures that are named by URL.
    """

    provider: str
    model: str
    ask: Ask
    counts_tools: bool = True
    fetches_media: bool = False

    def tokens(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None, seconds: float
    ) -> int:
        """Ask, and return the answer.

        Raises:
            ValueError: When it is no count of a request; any error of the integration, too.
        """
        found: object = self.ask(messages, tools, seconds)
        if type(found) is not int or not 0 < found <= MOST_TOKENS:
            raise ValueError(f"it counted {found!r:.40} tokens")
        return found

    def can_count(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether counting these messages fetches nothing."""
        return not self.fetches_media or not any(map(_names_remote_media, messages))


def count_endpoint(model: Any) -> CountEndpoint | None:
    """Return the endpoint that counts for a chat model, also inside bindings.

    Args:
        model: A chat model, or a runnable around one.

    Returns:
        The endpoint; None where its class has none, or where a call may reach several models.
    """
    models = models_of(model)
    if len(models) != 1 or not isinstance(models[0], BaseLanguageModel):
        return None
    called = models[0]
    name = model_name(called) or type(called).__name__
    provider = str(getattr(called, "_llm_type", type(called).__name__))
    named = partial(CountEndpoint, provider, name)
    own = _home_of(called, "get_num_tokens_from_messages")
    if not own.startswith(_NOT_ASKED):
        return _own_method(called, own, named)
    if _home_of(called, "get_num_tokens").startswith(_GOOGLE):
        return named(partial(_ask_google, called), fetches_media=True)
    return None


def _own_method(
    model: BaseLanguageModel[Any], home: str, named: Callable[..., CountEndpoint]
) -> CountEndpoint:
    """Return the endpoint behind a class's own `get_num_tokens_from_messages`.

    Where such a method gives up, it calls the inherited one; the copy of the model refuses then
    instead of loading GPT-2.
    """
    model = model.model_copy(update={"custom_get_token_ids": _refuse})
    count = model.get_num_tokens_from_messages
    if home.startswith(_VERTEX):
        ask: Ask = lambda messages, _tools, _seconds: count(_with_human_system(messages))  # noqa: E731
        return named(ask, counts_tools=False, fetches_media=True)
    if home.startswith(_ANTHROPIC):
        return named(partial(_ask_anthropic, count))
    takes_tools = "tools" in inspect.signature(count).parameters
    if home.startswith("langchain_aws") or not takes_tools:  # it takes them, and ignores them
        return named(lambda messages, _tools, _seconds: count(list(messages)), counts_tools=False)
    return named(lambda messages, tools, _seconds: count(list(messages), tools=tools or None))


def _ask_anthropic(
    count: Callable[..., int],
    messages: Sequence[BaseMessage],
    tools: Sequence[Any] | None,
    seconds: float,
) -> int:
    # Further keywords go to the client's own `count_tokens`; it retries by `max_retries`.
    return count(list(messages), tools=list(tools or ()) or None, timeout=seconds)


def _ask_google(
    model: Any, messages: Sequence[BaseMessage], tools: Sequence[Any] | None, seconds: float
) -> int:
    """Ask Google once over the whole request.

    The class's own `get_num_tokens` asks for one text, so its inherited method asks once a message.
    The request is formatted by the class, by a method that is not public; where that has changed,
    the estimate counts. Google's client takes system text and tools in Vertex mode only: else
    they go as texts in front, the tools as JSON; frames may differ by a few tokens from the real
    request.
    """
    formatted = model._prepare_request  # noqa: SLF001
    request = formatted(list(messages), tools=list(tools or ()) or None)
    contents, config = list(request["contents"]), request["config"]
    options = {"timeout": max(1, round(1_000 * seconds)), "retry_options": {"attempts": 1}}
    asked: dict[str, Any] = {"http_options": options}
    if model.client.vertexai:
        asked |= {"system_instruction": config.system_instruction, "tools": config.tools}
    else:
        texts = [*_texts_of(config.system_instruction), *map(_as_json, config.tools or ())]
        contents = [*({"role": "user", "parts": [{"text": one}]} for one in texts), *contents]
    answer = model.client.models.count_tokens(model=model.model, contents=contents, config=asked)
    tokens: int = answer.total_tokens
    return tokens


def _texts_of(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in getattr(content, "parts", None) or ():
        if part.text:
            yield part.text


def _as_json(tool: Any) -> str:
    return json.dumps(tool.model_dump(mode="json", exclude_none=True), ensure_ascii=False)


def _with_human_system(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    return [
        HumanMessage(one.content) if isinstance(one, SystemMessage) else one for one in messages
    ]


def _home_of(model: Any, method: str) -> str:
    """Return the module of the class that defines a method of a model."""
    return next(one.__module__ for one in type(model).__mro__ if method in vars(one))


def _refuse(_text: str) -> list[int]:
    raise NotImplementedError("this model's provider counts no tokens, or did not answer")


def _names_remote_media(message: BaseMessage) -> bool:
    content = message.content
    return isinstance(content, list) and any(map(_has_remote_url, content))


def _has_remote_url(block: Any) -> bool:
    """Return whether a block names media that would be fetched."""
    if not isinstance(block, dict) or block.get("type") == "text":
        return False
    values = [*block.values()]
    values += [value for one in values if isinstance(one, dict) for value in one.values()]
    return any(isinstance(value, str) and value.startswith(_REMOTE) for value in values)
