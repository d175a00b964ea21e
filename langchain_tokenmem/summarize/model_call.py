"""Calling a model so that the user's stream does not see it, while tracing still does."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config, get_callback_manager_for_config

_BOUND = frozenset(
    {
        *("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
        *("response_format", "ls_structured_output_format", "structured_output_format"),
        *("response_schema", "response_mime_type", "format", "output_config"),
    }
)
"""What binds a model to tools or to a form of answer, in the words of the integrations."""


def unstreamed_config(step: str, attempt: int) -> RunnableConfig:
    """Return the config of a call that stays out of every stream.

    `nostream` is LangGraph's tag for that; it does not stop `astream_events`, whose handlers are
    therefore left out of a copy of the callback manager. Tracers and usage counters stay.

    Args:
        step: What the call is for: `leaf`, `update`, `merge` or `reuse`.
        attempt: Which try, from 1.
    """
    manager = get_callback_manager_for_config(ensure_config()).copy()
    for handler in list(manager.handlers):
        if hasattr(handler, "tap_output_iter"):  # the mark of handlers that feed a stream
            manager.remove_handler(handler)
    return {
        "callbacks": manager,
        "tags": ["nostream", "tokenmem"],
        "metadata": {
            "lc_source": "summarization",
            "tokenmem_step": step,
            "tokenmem_attempt": attempt,
        },
        "run_name": "tokenmem_summary",
    }


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
        steps = [step for step in map(_unbound, model.steps) if step is not None]
        # `with_structured_output` puts parsers behind the model; a prompt in front is a chain
        # of the user's own, which is left alone.
        return steps[0] if steps and _unbound(model.steps[0]) is not None else None
    if isinstance(model, RunnableBindingBase):
        inner = _unbound(model.bound)
        if inner is None:
            return None
        kept = {key: value for key, value in model.kwargs.items() if key not in _BOUND}
        return model.model_copy(update={"bound": inner, "kwargs": kept})
    return None
