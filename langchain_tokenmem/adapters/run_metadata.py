"""Metadata `tokenmem.*` of a model's own run: how full its request is, what it hides, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config

from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.turns.conversation import TurnResult


def metadata_of(result: TurnResult) -> dict[str, Any]:
    """Return the metadata of the model call behind a turn: numbers, and no text of a message.

    `tokenmem.hidden` counts messages that are summarized, shortened or left out;
    `tokenmem.reason` is that of the newest change, and missing where nothing was changed.
    """
    state, view = result.state, result.view
    covered = state["summary"]["covered"] if state["summary"] else 0
    change = change_between(None, state)
    return {
        "tokenmem.tokens": view.usage.input_tokens,
        "tokenmem.limit": view.usage.max_tokens,
        "tokenmem.hidden": covered + len(state["cuts"]) + view.left_out,
        **({"tokenmem.reason": change.reason} if change else {}),
    }


@contextmanager
def runs_with(metadata: dict[str, Any]) -> Iterator[None]:
    """Give metadata to the runs that begin inside, as if the run around them had it."""
    held = var_child_runnable_config.get() or {}
    known = held.get("metadata") or {}
    token = var_child_runnable_config.set({**held, "metadata": {**known, **metadata}})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
