"""Tools of the memory: the scope of a call, bound or that of the run, and errors as answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore
from pydantic import ValidationError

from langchain_tokenmem.adapters.run_context import Run
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.errors import (
    ConfigurationError,
    RecallError,
    ScopeError,
    TokenMemoryError,
)

NO_SESSION_STORE = (
    "this tool has no store of this conversation; the application gives it one by "
    "memory_tools(..., store=...)."
)
"""Answer of a tool outside of a graph that cannot read a transcript or keep pins."""


@dataclass(frozen=True)
class ToolScope:
    """The scope of one tool call; a model's arguments never change it.

    Attributes:
        user_id: The user; None if none is named.
        session_id: The session, or the thread with the names of its sub-graph; None without one.
        state: State of the running graph; empty outside of one.
        store: Store of the running graph; None without one.
        call_id: Id of the tool call.
    """

    user_id: str | None
    session_id: str | None
    state: Mapping[str, Any]
    store: BaseStore | None = None
    call_id: str | None = None


@dataclass(frozen=True)
class BoundScope:
    """The user and session that an application has bound to its tools.

    Attributes:
        user_id: The user.
        session_id: The session.
    """

    user_id: str | None = None
    session_id: str | None = None

    def of(self, runtime: ToolRuntime[Any, Any] | None) -> ToolScope:
        """Return the scope of a call: what is bound, else what the run names.

        Raises:
            ScopeError: When an id of the run cannot be used.
        """
        user, session = self.user_id, self.session_id
        if user is None and session is None:
            # Of the run itself: a chain may pass a model's arguments, even a made-up runtime.
            run = Run.of()
            session, user = run.session() if run.thread else None, run.user_id
        if runtime is None:
            return ToolScope(user, session, {})
        held = runtime.state
        state = held if isinstance(held, Mapping) else dict(vars(held)) if held else {}
        return ToolScope(user, session, state, runtime.store, runtime.tool_call_id)


def on_one_line(text: str) -> str:
    r"""Return a text with `\n` in place of its line breaks: an answer of a tool is one line."""
    return r"\n".join(text.splitlines())


def text_of_error(error: Exception) -> str:
    """Return an error as a sentence that a model can act on."""
    if isinstance(error, ScopeError):
        return "This cannot be done here: the conversation names no user or session for it."
    if isinstance(error, ConfigurationError | RecallError):
        return on_one_line(f"That did not work: {error}")
    if isinstance(error, TokenMemoryError):
        return "The store did not answer; nothing was changed. Try again later."
    return f"That did not work: {type(error).__name__}. Check the arguments."


def text_of_argument_errors(error: ValidationError | Any) -> str:
    """Return what is wrong with a tool's arguments, as a sentence."""
    found = error.errors(include_url=False, include_input=False)
    parts = (f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in found)
    return f"Invalid arguments: {'; '.join(parts)}."


def as_tool(call: Callable[..., Any]) -> BaseTool:
    """Return a function as a tool: errors become answers, and none is raised into the graph.

    Async calls run in our own thread.

    Args:
        call: The function; its name, arguments and docstring are the tool's.
    """

    @wraps(call)
    def answered(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  here, and below, all errors of tools are caught
            return text_of_error(error)

    async def aanswered(*args: Any, **kwargs: Any) -> Any:
        try:
            return await in_own_thread(call, *args, **kwargs)
        except Exception as error:  # noqa: BLE001
            return text_of_error(error)

    return StructuredTool.from_function(
        func=answered,
        coroutine=aanswered,
        parse_docstring=True,
        handle_validation_error=text_of_argument_errors,
    )
