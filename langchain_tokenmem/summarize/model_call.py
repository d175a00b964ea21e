"""Model calls that tracers see and no stream of the application does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    var_child_runnable_config,
)

NOSTREAM = "nostream"
"""LangGraph's tag of a model call that is no part of `stream_mode="messages"`."""

_BOUND = frozenset(
    {
        *("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
        *("response_format", "ls_structured_output_format", "structured_output_format"),
        *("response_schema", "response_mime_type", "format", "output_config"),
    }
)
"""Keywords that bind a model to tools or to a form of answer, as the integrations name them."""


def unstreamed_config(step: str, attempt: int) -> RunnableConfig:
    """Return the config of a call that stays out of every stream.

    `nostream` is LangGraph's tag for that; it does not stop `astream_events`, whose handlers are
    therefore left out of a copy of the callback manager. Tracers and usage counters stay.

    Args:
        step: What the call is for: `leaf`, `update`, `merge` or `reuse`.
        attempt: Which try, from 1.
    """
    manager = get_callback_manager_for_config(ensure_config())
    return {
        "callbacks": _without_stream_handlers(manager),
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
    """Run what is inside without the handlers that stream tokens to the application.

    A summarizer of the application may call a chat model in the plainest way; inside a run that
    call inherits the run's callbacks, and its words would appear as a message of nobody in
    `stream_mode="messages"` and `astream_events`. Tracers stay.
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
    """Return a chat model without its tools and forms of answer; the given one is not changed.

    Anything that holds no chat model is returned as it is.
    """
    found = _unbound(model)
    return model if found is None else found


def _unbound(model: Runnable[Any, Any]) -> Runnable[Any, Any] | None:
    if isinstance(model, BaseChatModel):
        return model
    if isinstance(model, RunnableSequence):
        # `with_structured_output` puts parsers behind the model; a prompt in front is a chain
        # of the user's own, which is left alone.
        return _unbound(model.steps[0])
    if isinstance(model, RunnableBindingBase):
        inner = _unbound(model.bound)
        if inner is None:
            return None
        kept = {key: value for key, value in model.kwargs.items() if key not in _BOUND}
        return model.model_copy(update={"bound": inner, "kwargs": kept})
    return None
