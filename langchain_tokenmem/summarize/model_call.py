"""Model calls that tracers see, but the application's streams do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import var_child_runnable_config

NOSTREAM = "nostream"
"""LangGraph's tag of a model call that is not part of `stream_mode="messages"`."""

_TOOL_CHOICES = ("tool_choice", "function_call")
_TOOLS = frozenset({"tools", "functions", "parallel_tool_calls", *_TOOL_CHOICES})
_ANSWER_FORMS = frozenset(
    {
        *("response_format", "ls_structured_output_format", "structured_output_format"),
        *("response_schema", "response_mime_type", "format", "output_config"),
    }
)
"""Keywords that bind a model to tools or to a response format, as the integrations name them."""

_FREE_CHOICES = (None, "auto", "none")
"""Values of `tool_choice` under which a model may answer with a text."""


@dataclass
class JobUsage:
    """Calls and tokens of one summary so far, as the model reports them; see `Summary`."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    failures: tuple[str, ...] = ()

    def add(self, answer: BaseMessage) -> None:
        """Add what an answer reports."""
        usage = getattr(answer, "usage_metadata", None) or {}
        self.input_tokens += usage.get("input_tokens", 0)
        self.output_tokens += usage.get("output_tokens", 0)
        reported = answer.response_metadata
        price = reported.get("cost", (reported.get("token_usage") or {}).get("cost"))
        if isinstance(price, (int, float)):
            self.cost = (self.cost or 0.0) + price


def call_config(step: str, attempt: int) -> RunnableConfig:
    """Return the config of a summarizer's call: its name for tracers, and a tag against streaming.

    Args:
        step: What the call is for: `update`, `reuse`, `leaf`, `part`, `merge` or `condense`.
        attempt: Which try, from 1.
    """
    return {
        "tags": [NOSTREAM, "tokenmem"],
        "metadata": {
            "lc_source": "summarization",
            "tokenmem_step": step,
            "tokenmem_attempt": attempt,
        },
        "run_name": "tokenmem_summary",
    }


@contextmanager
def without_streaming() -> Iterator[None]:
    """Run the block without the handlers that stream tokens to the application.

    A chat model that is called inside a run inherits the run's callbacks, and its text would appear
    as a stray message in `stream_mode="messages"` and `astream_events`. LangGraph's tag `nostream`
    does not prevent the latter. Tracers are kept.
    """
    config = var_child_runnable_config.get(None)
    if config is None:
        yield
        return
    quiet: RunnableConfig = {**config, "tags": [*(config.get("tags") or []), NOSTREAM]}
    quiet["callbacks"] = _without_stream_handlers(config.get("callbacks"))
    token = var_child_runnable_config.set(quiet)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _without_stream_handlers(callbacks: Any) -> Any:
    """Return callbacks without the handlers that feed a stream; the given ones are not changed."""
    if not isinstance(callbacks, BaseCallbackManager):
        return [one for one in callbacks or () if not _is_stream_handler(one)]
    quiet = callbacks.copy()
    for handler in filter(_is_stream_handler, list(quiet.handlers)):
        quiet.remove_handler(handler)
    return quiet


def _is_stream_handler(handler: Any) -> bool:
    return hasattr(handler, "tap_output_iter")


def without_bindings(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a chat model without its tools and response formats; the given one is not changed.

    Anything that contains no chat model is returned as it is.
    """
    found = _rebuilt(model, lambda chat: chat)
    return model if found is None else found


def as_main_call(
    model: Runnable[Any, Any], tools: Sequence[Any], settings: Mapping[str, Any]
) -> Runnable[Any, Any] | None:
    """Return a chat model that sends the same tools and settings as the main call.

    Args:
        model: The summarizer's model; it is not changed.
        tools: Tools of the main call; if there are none, those that the model is bound to.
        settings: Other keywords of the main call.

    Returns:
        None if a request with these cannot be answered with notes: a tool must be called, a
        response format is bound, or the model does not accept tools.
    """
    bound = {**_bindings(model), **settings}
    forced = any(not _is_free(bound.get(key)) for key in _TOOL_CHOICES)
    if forced or not _ANSWER_FORMS.isdisjoint(key for key, value in bound.items() if value):
        return None
    if not tools:
        return model.bind(**settings) if settings else model
    kept = {key: value for key, value in bound.items() if key != "tools"}

    def with_tools(chat: BaseChatModel) -> Runnable[Any, Any]:
        return chat.bind_tools(list(tools), **kept)

    try:
        return _rebuilt(model, with_tools)
    except NotImplementedError:
        return None


def _is_free(choice: Any) -> bool:
    value = choice.get("type") if isinstance(choice, Mapping) else choice
    return value in _FREE_CHOICES


def _bindings(model: Runnable[Any, Any]) -> dict[str, Any]:
    """Return the keywords that a model is bound to, those of the outermost binding first."""
    if isinstance(model, RunnableSequence):
        return _bindings(model.steps[0])
    if isinstance(model, RunnableBindingBase):
        return {**_bindings(model.bound), **model.kwargs}
    return {}


def _rebuilt(
    model: Runnable[Any, Any], change: Callable[[BaseChatModel], Runnable[Any, Any]]
) -> Runnable[Any, Any] | None:
    """Return the changed chat model in its bindings, without their tools and response formats."""
    if isinstance(model, BaseChatModel):
        return change(model)
    if isinstance(model, RunnableSequence):
        # `with_structured_output` puts parsers after the model; a prompt before it makes a chain of
        # the user's own, which is not changed.
        return _rebuilt(model.steps[0], change)
    if isinstance(model, RunnableBindingBase):
        inner = _rebuilt(model.bound, change)
        if inner is None:
            return None
        left_out = _TOOLS | _ANSWER_FORMS
        kept = {key: value for key, value in model.kwargs.items() if key not in left_out}
        return model.model_copy(update={"bound": inner, "kwargs": kept})
    return None
