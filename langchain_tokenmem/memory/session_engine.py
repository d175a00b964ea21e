"""The engine of a memory under the settings of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from langchain_tokenmem.core.session_settings import SessionSettings
from langchain_tokenmem.core.trigger import SummaryPolicy
from langchain_tokenmem.core.working_notes.mode_profiles import AnnotationSettings
from langchain_tokenmem.core.working_notes.tool_kinds import TurnMemorySettings
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.engine import Engine
from langchain_tokenmem.summarize.base import Summarizer


def configured_engine(
    engine: Engine,
    settings: SessionSettings,
    *,
    summarizer_named: Callable[[str], Summarizer],
    warn: Callable[[str], None],
) -> Engine:
    """Return the engine under the settings of a session.

    Args:
        engine: The memory's engine.
        settings: The settings of the session, over those of its user.
        summarizer_named: Returns the summarizer of a name.
        warn: Takes what the log should say once: a setting that cannot be used.
    """
    if settings.budget is not None:
        engine = replace(engine, budget=settings.budget, follows_model=False)
    if settings.summarizer is not None:
        engine = _with_summarizer(engine, settings.summarizer, summarizer_named, warn)
    if settings.mode is not None:
        try:
            mode = engine.annotations.mode_named(settings.mode)
            engine = replace(engine, annotations=replace(engine.annotations, mode=mode))
        except ConfigurationError as error:
            warn(f"A session's own mode is not used: {error}")
    if settings.enabled is False:
        off = AnnotationSettings(TurnMemorySettings(shown="never"), modes_on=False)
        engine = replace(engine, annotations=off, policy=SummaryPolicy(trigger=None))
    return engine


def _with_summarizer(
    engine: Engine,
    name: str,
    summarizer_named: Callable[[str], Summarizer],
    warn: Callable[[str], None],
) -> Engine:
    try:
        return replace(engine, summarizer=summarizer_named(name))
    except Exception as error:  # noqa: BLE001  # a package or a key may be missing: any error
        warn(f"The summarizer {name!r} of a session is not used: {type(error).__name__}: {error}")
        return engine
