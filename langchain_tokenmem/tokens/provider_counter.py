"""`ProviderCounter`: asks the provider of a model how many tokens a whole request has.

A count takes a request to the provider, so few are made: never twice for the same content, at most
three at once, in their own threads, and none for a while after three have failed. A caller waits
for an answer at most two seconds, and then gets the estimate.

LangChain's chat models call the endpoints. None of this could be tried on a paid API. The tests
call the integrations as installed from the index, against local servers that implement these
endpoints (`integration_tests/test_count_endpoints.py`): they check what is sent, and that an answer
is used as it is. That the numbers match a later bill is what the providers say.

| class | asked | notes |
|---|---|---|
| `ChatAnthropic` | `/v1/messages/count_tokens` with system text and tools | |
| `ChatGoogleGenerativeAI` | `:countTokens`, once over the whole request | see `_ask_google` |
| `ChatVertexAI` | `countTokens` | the class drops system text and tools: the first is sent as a human message, tools are estimated |
| `ChatBedrockConverse`, `ChatBedrock` | `/model/{id}/count-tokens` with system text, models that have it | tools are estimated |
| `ChatAnthropicBedrock` | none: its SDK refuses | |
| others | the class's own `get_num_tokens_from_messages`, if it has one | tools are estimated if it takes none |
"""  # noqa: E501  rows of a table

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cachetools import TTLCache
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_tokenmem.background import (
    BackgroundRunner,
    CircuitBreaker,
    ForkSafeLock,
    in_thread,
    seconds_left,
    wait_for,
)
from langchain_tokenmem.core.chat_models import model_name, models_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.tokens.counters import TokenCount, counter_for, request_digest

Ask = Callable[[Sequence[BaseMessage], Sequence[Any] | None, float], int]
"""Asks for the tokens of messages and tools; the seconds to try are not guaranteed."""

# The inherited method ignores tools and loads GPT-2; OpenAI's counts with tiktoken on this machine,
# which downloads, and fetches images.
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
(docs, "Token counting"). Not measured here: the endpoints require an account."""


@dataclass(frozen=True)
class CountEndpoint:
    """A way to have a request counted.

    Attributes:
        provider: Name of the provider, as LangChain's class gives it.
        model: Name of the model.
        ask: Asks it; raises whatever the integration raises.
        counts_tools: Whether its answer includes the tools.
        fetches_media: Whether the integration fetches images that are given by URL.
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
            ValueError: When it is not a count of a request; also any error of the integration.
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
        The endpoint; None if its class has none, or if a call may reach several models.
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

    When such a method gives up, it calls the inherited one; the copy of the model then raises
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
    """Ask Google once for the whole request.

    The class's own `get_num_tokens` asks for one text, so its inherited method asks once per
    message. The request is formatted by a private method of the class; if that has changed, the
    estimate is used. Google's client takes system text and tools only in Vertex mode: otherwise
    they are sent as texts before the messages, the tools as JSON; frames may differ by a few tokens
    from the real request.
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


logger = logging.getLogger(__name__)

MOST_REQUESTS = 3
"""Requests to a provider at once."""

TIMEOUT_S = 2.0
"""Maximum seconds of a call, including the wait for its turn."""

WAITED = 0.95
"""Share of them for which it waits; the rest is for the estimate."""

KEPT_ANSWERS = 1_000
KEPT_SECONDS = 300.0
"""Number of answers kept, the most recently used ones, and for how many seconds."""

FAILURES = 3
COOL_DOWN_S = 60.0
"""After so many failures in a row no request is made for so many seconds."""


class ProviderCounter:
    """Counts whole requests by the model's provider, and everything else by estimate.

    As a memory's counter it asks the provider when the estimate of a request is near `compact_at`,
    `summarize_at` or the limit, at most once per turn, and uses the estimate if no answer comes in
    time. The parts of the request are scaled so that their sum is the provider's count.

    If there is nothing to ask, `counter_for(model)` counts: OpenAI's models, classes without an
    endpoint, models with fallbacks.

    Args:
        model: A chat model, also inside bindings.
        timeout_s: Maximum seconds that a call waits.
        clock: Monotonic clock, in seconds.

    Attributes:
        id: Name of the vocabulary and rules; part of every cache key.
        method: Method of its counts of messages: `exact` or `estimate`.
        asks: Whether there is a provider to ask.

    Raises:
        ConfigurationError: When `timeout_s` is not above 0, or the model is only a name.

    Example:
        >>> from langchain_openai import ChatOpenAI  # doctest: +SKIP
        >>> model = ChatOpenAI(model="gpt-5")  # doctest: +SKIP
        >>> memory = TokenMemory(counter=ProviderCounter(model))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if model is None or isinstance(model, str):
            raise ConfigurationError(
                f"ProviderCounter takes the chat model that is called, not {model!r}: its own "
                f"client asks. counter_for({model!r}) counts by a name."
            )
        if not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
            raise ConfigurationError(
                f"timeout_s is {timeout_s!r}; it must be a number of seconds above 0."
            )
        self._local = counter_for(model)
        self.id: Final = self._local.id
        self.method: Final = self._local.method
        self._endpoint = None if self.method == "exact" else count_endpoint(model)
        self.asks: Final = self._endpoint is not None
        self._wait_s = WAITED * timeout_s
        self._breaker = CircuitBreaker(FAILURES, COOL_DOWN_S, clock)
        self._runner = BackgroundRunner("tokenmem-count", MOST_REQUESTS)
        # None marks a request that was asked for without an answer.
        self._answers: TTLCache[bytes, int | None] = TTLCache(KEPT_ANSWERS, KEPT_SECONDS, clock)
        self._lock = ForkSafeLock()

    def __repr__(self) -> str:
        return f"<ProviderCounter asks {getattr(self._endpoint, 'provider', 'no provider')}>"

    def text(self, text: str) -> int:
        """Return the tokens of a text, without asking."""
        return self._local.text(text)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame, without asking."""
        return self._local.message(message)

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas, 0 for none, without asking."""
        return self._local.tools(tools)

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request, as the provider counts it.

        It waits at most `timeout_s`. On an event loop it does not ask: use `acount`.

        Args:
            messages: The request, including its system message.
            tools: Its tools.

        Returns:
            The provider's count, or the estimate, for which `is_estimate` is true.
        """
        if _running_loop() is None:
            self.ask(messages, tools)
        tokens = self.known(messages, tools)
        count = self._local.count(messages, tools=tools)
        if tokens is None or self._endpoint is None:
            return count
        estimated = 0 if self._endpoint.counts_tools else self._local.tools(tools)
        accuracy = max(PROVIDER_ACCURACY, count.accuracy * estimated / tokens)
        return TokenCount(tokens, "provider", accuracy)

    acount = in_thread(count)

    def ask(self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None) -> bool:
        """Ask for the count of a request, and wait for the answer, which is then `known`.

        A count that does not come in time is not asked for again.

        Args:
            messages: The request.
            tools: Its tools.

        Returns:
            Whether it was asked for: not if the answer is known, did not come before, or may not be
            asked for now.
        """
        until = time.monotonic() + self._wait_s
        if self._endpoint is None or not self._endpoint.can_count(messages):
            return False
        key = self._key(messages, tools)
        with self._lock:
            if key in self._answers:
                return False
        if self._breaker.is_open or self._is_stuck():
            return False
        work = partial(self._ask, key, tuple(messages), tools, until)
        wait_for(self._runner.start(key, work), seconds_left(until - time.monotonic()))
        with self._lock:
            is_answered = key in self._answers
            self._answers.setdefault(key, None)
        job = None if is_answered else self._runner.job(key)
        # One that has only waited for its turn says nothing about the provider.
        if job is not None and job.is_overdue(self._wait_s / 2):
            self._fail(f"no answer in {self._wait_s:g} s")
        return True

    def known(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int | None:
        """Return the known count of a request by the provider, or None."""
        if self._endpoint is None:
            return None
        key = self._key(messages, tools)
        with self._lock:
            tokens: int | None = self._answers.get(key)
        return tokens

    def _is_stuck(self) -> bool:
        """Return whether all places are taken by requests that do not end."""
        jobs = self._runner.jobs()
        return sum(job.is_overdue(self._wait_s) for job in jobs) >= MOST_REQUESTS

    def _ask(
        self,
        key: bytes,
        messages: Sequence[BaseMessage],
        tools: Sequence[Any] | None,
        until: float,
    ) -> None:
        """Ask the provider, and keep its answer; the work of a job."""
        began = time.monotonic()
        if self._endpoint is None or began >= until or self._breaker.is_open:
            return  # no one waits any more, or others have failed meanwhile
        with self._lock:
            if key in self._answers:
                return  # answered between another caller's check and its start of this job
        try:
            tokens = self._endpoint.tokens(messages, tools, self._wait_s)
        except Exception as error:  # noqa: BLE001  # providers' libraries may raise anything
            with self._lock:
                self._answers.setdefault(key, None)
            self._fail(f"{type(error).__name__}: {error}"[:200])
            return
        if not self._endpoint.counts_tools:
            tokens += self._local.tools(tools)
        with self._lock:
            self._answers[key] = tokens
        if time.monotonic() - began < self._wait_s:
            self._breaker.succeeded()

    def _fail(self, why: str) -> None:
        self._breaker.failed()
        _report_failure(repr(self), why)

    def _key(self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None) -> bytes:
        names = (self._endpoint.provider, self._endpoint.model) if self._endpoint else ()
        return request_digest(messages, tools, *names)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


@functools.lru_cache(maxsize=64)
def _report_failure(counter: str, why: str) -> None:
    logger.warning("Tokens are estimated, %s got no count: %s", counter, why)
