"""Conversion of models, runnables and functions into summarizers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable

from langchain_tokenmem.background import in_new_thread, with_calls_on_loop
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.summarize.base import Summarizer, Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive import ExtractiveSummarizer
from langchain_tokenmem.summarize.model import ModelSummarizer

SummaryFunction = Callable[..., str | Awaitable[str]]
"""`f(messages, prior, instruction, max_tokens) -> text`, or with only the first of these, sync or
async. The text is the entry about `messages` alone; `prior` is what the log already contains."""

AnySummarizer = Summarizer | Runnable[Any, Any] | SummaryFunction | str


def as_summarizer(given: AnySummarizer | None) -> Summarizer:
    """Return a summarizer.

    Args:
        given: A `Summarizer`, a chat model or other runnable, a model's name such as
            `openai:gpt-4o-mini` (made by `langchain.chat_models.init_chat_model`), a function
            `(messages, prior, instruction, max_tokens) -> text`; None or `extractive` for the
            extractive one.

    Raises:
        ConfigurationError: When it is none of these, or the named model cannot be created.
    """
    if given is None or given == "extractive":
        return ExtractiveSummarizer()
    if isinstance(given, str):
        from langchain.chat_models import init_chat_model  # noqa: PLC0415  # only for names

        try:
            return ModelSummarizer(init_chat_model(given))
        except Exception as error:  # a package or a key may be missing: any
            raise ConfigurationError(
                f"The summarizer {given!r} cannot be created: {type(error).__name__}: {error}"
            ) from error
    if isinstance(given, Summarizer):
        return given
    if isinstance(given, Runnable):
        return ModelSummarizer(given)
    if callable(given):
        return FunctionSummarizer(given)
    raise ConfigurationError(
        f"{given!r} is not a summarizer; give a chat model, its name, a runnable or a function."
    )


class FunctionSummarizer:
    """A function as a summarizer, sync or async; its text is checked like a model's.

    The text becomes one entry of a log, after the earlier entries. A function that returns the
    prior text with its own, as for a summary that is rewritten each time, would duplicate it. When
    entries are condensed into one, they are the messages: human ones named `earlier_notes`.

    Args:
        function: `(messages, prior, instruction, max_tokens) -> text`; it may take fewer.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> writer = FunctionSummarizer(lambda messages: f"- {len(messages)} messages")
        >>> request = SummaryRequest([HumanMessage("Hi.")], 50, len, prior="- 7 messages")
        >>> writer.summarize(request).text
        '- 1 messages'
    """

    is_quick = False

    def __init__(self, function: SummaryFunction) -> None:
        self._function = function
        self._takes = _positional_parameters(function)
        if not self._takes:
            raise ConfigurationError(
                f"{function!r} takes no messages; give a function of (messages, prior, "
                f"instruction, max_tokens), or of the first of these."
            )
        self.name = getattr(function, "__name__", type(function).__name__)
        self._fallback = ExtractiveSummarizer()

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return True: a function decides for itself what is worth summarizing."""
        return bool(messages)

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return the function's text, or the extractive summary if it fails."""
        return self._summary(request, _run)

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Do the same as `summarize` without blocking the event loop, which awaits the text."""
        return await with_calls_on_loop(_awaited, partial(self._summary, request))

    def _summary(self, request: SummaryRequest, wait: Callable[[Awaitable[str]], str]) -> Summary:
        given = [list(request.messages), request.prior, request.instruction, request.max_tokens]
        try:
            text: Any = self._function(*given[: self._takes])
            if inspect.isawaitable(text):
                text = wait(text)
        except Exception as error:  # noqa: BLE001  # whatever it raises, the fallback answers
            why = f"{type(error).__name__}: {error}"
        else:
            if not isinstance(text, str) or not text.strip():
                why = "the answer is blank"
            elif (tokens := request.count_text(text)) > request.max_tokens:
                why = f"the answer has {tokens:,} tokens, {request.max_tokens:,} are allowed"
            else:
                return Summary(text.strip(), self.name, "function")
        return replace(self._fallback.summarize(request), failures=(f"{self.name}: {why}",))


def _run(text: Awaitable[str]) -> str:
    """Wait for a text on its own event loop: the caller may be inside one, as in a notebook."""
    return in_new_thread(lambda: asyncio.run(_awaited(text)), "tokenmem-summary").result()


async def _awaited(text: Awaitable[str]) -> str:
    return await text


def _positional_parameters(function: SummaryFunction) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return 1
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 4
    return sum(kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)
