"""Tool `pin_context`: an agent pins a text to its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from langchain_tokenmem.adapters.agent_tools import memory_state_in
from langchain_tokenmem.adapters.run_context import state_in_run
from langchain_tokenmem.adapters.tool_scope import (
    NO_SESSION_STORE,
    BoundScope,
    ToolScope,
    as_tool,
    on_one_line,
)
from langchain_tokenmem.core.argument_checks import BeforeStore, text_as_kept
from langchain_tokenmem.core.pins import PINS_CHANNEL, new_pin, pin_named, with_pins
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.notes_state import Pin
from langchain_tokenmem.state import new_state
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.stored_session import SessionPins

Action = Literal["pin", "unpin", "list"]
Update = Command[Any] | str


def pin_context_tool(
    bound: BoundScope,
    store: TranscriptStore | None,
    name: str,
    before_store: BeforeStore | None = None,
) -> BaseTool:
    """Return the tool `pin_context`.

    Args:
        bound: Scope that the application has bound.
        store: Store of the session's pins in a chain; in a graph they stand in its state.
        name: Name of the memory: the middleware's name, or the state key of nodes.
        before_store: Changes texts before they are pinned.
    """

    def pin_context(  # noqa: D417  # what is injected is not the model's to know
        text: str = "",
        action: Action = "pin",
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> Any:
        """Keep a text in view for the rest of this conversation, whatever is summarized.

        Args:
            text: The text to pin; to unpin its id, or the same text.
            action: pin, unpin or list.
        """
        scope = bound.of(runtime)
        if action != "list" and not text.strip():
            return "Say what to pin or unpin: text is empty."
        text = text_as_kept(before_store, text) if text else text
        if scope.call_id is not None and scope.state:
            return _in_state(scope, text, action, name)
        if scope.session_id is None:
            raise ScopeError("There is no session here to pin to.")
        if store is None:
            raise ConfigurationError(NO_SESSION_STORE)
        return _in_session(
            SessionPins(store, scope.session_id, scope.user_id, by="tool"), text, action
        )

    return as_tool(pin_context)


def _in_state(scope: ToolScope, text: str, action: Action, name: str) -> Update:
    """Pin in the state of the running graph, which forks with it."""
    memory = memory_state_in(dict(scope.state), name) or new_state()
    channel = scope.state.get(PINS_CHANNEL) or state_in_run(PINS_CHANNEL)
    held = with_pins(memory, channel).get("pins", [])
    if action == "list":
        return _listed(held)
    if action == "unpin":
        found = pin_named(held, text)
        if found is None or found["by"] != "tool":
            return _not_unpinned(found, text)
        return _updated(scope, found["id"], None, _unpinned(found))
    pin = new_pin(text, by="tool")
    known = pin_named(held, pin["id"])
    return _pinned(known) if known else _updated(scope, pin["id"], pin, _pinned(pin))


def _in_session(pins: SessionPins, text: str, action: Action) -> str:
    """Pin in the state of a session in a store."""
    if action == "list":
        return _listed(pins.pins())
    if action == "pin":
        return _pinned(pins.pin(text))
    found = pin_named(pins.pins(), text)
    if found is None or found["by"] != "tool":
        return _not_unpinned(found, text)
    pins.unpin(found["id"])
    return _unpinned(found)


def _updated(scope: ToolScope, key: str, pin: Pin | None, answer: str) -> Command[Any]:
    message = ToolMessage(answer, tool_call_id=scope.call_id or "")
    return Command(update={PINS_CHANNEL: {key: pin}, "messages": [message]})


def _pinned(pin: Pin) -> str:
    return f"Pinned {pin['id']}: {on_one_line(pin['text'])}"


def _unpinned(pin: Pin) -> str:
    return f"Unpinned {pin['id']}."


def _not_unpinned(found: Pin | None, text: str) -> str:
    if found is None:
        return f'There is no pin "{" ".join(text.split())[:80]}".'
    return f"{found['id']} was pinned by the application; it stays."


def _listed(pins: Sequence[Pin]) -> str:
    lines = (f"- {on_one_line(pin['text'])} [{pin['id']}]" for pin in pins)
    return "\n".join(lines) or "Nothing is pinned."
