"""The run of a summary in the background, beside that of the call, which may be over by then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    var_child_runnable_config,
)

from langchain_tokenmem.events import EventSource
from langchain_tokenmem.summarize.model_call import without_streaming


@contextmanager
def run_in_background(source: EventSource | None) -> Iterator[None]:
    """Make what is inside a run of its own, `tokenmem.background`, for tracers and handlers.

    Its metadata names the conversation, and as `tokenmem.run_id` the run of the call.

    Args:
        source: The conversation; None where it is not known.
    """
    with without_streaming():
        config = ensure_config()
        manager = get_callback_manager_for_config(config)
        if not manager.handlers:
            yield
            return
        manager.parent_run_id = None
        known = {key: value for key, value in asdict(source or EventSource()).items() if value}
        manager.add_metadata({f"tokenmem.{key}": value for key, value in known.items()})
        run = manager.on_chain_start(None, known, name="tokenmem.background")
        token = var_child_runnable_config.set({**config, "callbacks": run.get_child()})
        try:
            yield
        except BaseException as error:
            run.on_chain_error(error)
            raise
        else:
            run.on_chain_end({})
        finally:
            var_child_runnable_config.reset(token)
