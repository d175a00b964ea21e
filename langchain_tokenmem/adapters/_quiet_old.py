"""Work of the memory inside a graph that the application's stream shall not hear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler

NOSTREAM = "nostream"
"""LangGraph's tag of a model call that is no part of `stream_mode="messages"`."""


@contextmanager
def unheard() -> Iterator[None]:
    """Run what is inside without the handlers that stream tokens to the application.

    A summarizer may call a chat model in the plainest way; inside a graph that call inherits the
    run's callbacks, and its words would appear as a ghost message in `stream_mode="messages"` and
    `astream_events`. Tracers stay: the call can still be seen where runs are traced.
    """
    config = var_child_runnable_config.get(None)
    if config is None:
        yield
        return
    quiet: RunnableConfig = {**config, "tags": [*(config.get("tags") or []), NOSTREAM]}
    quiet["callbacks"] = _without_streams(config.get("callbacks"))
    token = var_child_runnable_config.set(quiet)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _without_streams(callbacks: Any) -> Any:
    if isinstance(callbacks, BaseCallbackManager):
        quiet = callbacks.copy()
        for handler in list(quiet.handlers):
            if isinstance(handler, _StreamingCallbackHandler):
                quiet.remove_handler(handler)
        return quiet
    return [one for one in callbacks or () if not isinstance(one, _StreamingCallbackHandler)]
