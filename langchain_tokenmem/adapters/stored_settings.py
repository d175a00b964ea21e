"""Settings that a store keeps of a thread and its user, for the runs of graphs and agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_tokenmem.adapters.run_context import saver_of_run, subgraph_of, user_of
from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.errors import ScopeError, TokenMemoryError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.storage.transcript_store import TranscriptStore


def store_of_run(
    memory: TokenMemory, config: RunnableConfig | None, store: TranscriptStore | None
) -> TranscriptStore | None:
    """Return the store that has settings of a run's thread; None where no part of it knows one.

    Args:
        memory: The memory of the run.
        config: The run's config; None for the one that LangChain keeps for the running task.
        store: The one that the application has given; it beats that of a `TokenMemorySaver`, which
            beats that of the memory's recall.
    """
    near = (
        store,
        getattr(saver_of_run(config), "store", None),
        getattr(memory.recall, "store", None),
    )
    return next((one for one in near if isinstance(one, TranscriptStore)), None)


def settings_of_run(
    memory: TokenMemory,
    config: RunnableConfig | None,
    store: TranscriptStore | None,
    *,
    shared_threads: bool = False,
) -> Callable[[], SessionSettings] | None:
    """Return a function that reads the settings of a run's thread; None where there are none.

    A sub-graph has those of the thread, but for the mode: it has modes of its own.

    Args:
        memory: The memory of the run.
        config: The run's config; None for the one that LangChain keeps for the running task.
        store: The one that the application has given.
        shared_threads: Threads belong to nobody.

    Raises:
        ScopeError: When an id of the run cannot be used.
    """
    found = store_of_run(memory, config, store)
    thread = (ensure_config(config).get("configurable") or {}).get("thread_id")
    user = user_of(config, shared_threads=shared_threads)
    if found is None or not (thread or user):
        return None
    name = str(thread) if thread else None
    is_inside = bool(subgraph_of(config))

    def read() -> SessionSettings:
        try:
            settings = found.settings(name, user_id=user)
        except ScopeError:
            raise
        except TokenMemoryError as error:
            memory.warn_once(f"Thread {name!r}: its own settings are not used, {error}")
            return SessionSettings()
        return replace(settings, mode=None) if is_inside else settings

    return read
