"""Tools for agents: `compact_conversation`, `read_message`, `record_decision` and `set_goal`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from pydantic import BeforeValidator

from langchain_tokenmem.adapters.run_context import Run, state_in_run
from langchain_tokenmem.adapters.tool_scope import BoundScope
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.messages import (
    groups,
    messages_named,
    reference,
    role_of,
    spoken_messages,
    text_of,
    well_formed,
)
from langchain_tokenmem.core.tool_calls import paired_calls
from langchain_tokenmem.core.working_notes.reading import RECORD_DECISION, SET_GOAL
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.graph_thread import with_pruned

COMPACT_REQUESTS = "token_memory_orders"
"""State key of the compactions that an agent asked for, by the name of each memory at work."""

REQUEST_DONE = ""
"""Request of a memory that has none to carry out: it shows a tool which memories there are."""

_DEFAULT_INSTRUCTION = "Keep what the next steps need."
_LONGEST_READ = 20_000
"""Maximum characters that one read returns: about 5,000 tokens of English."""


def compact_conversation_tool(name: str = "memory") -> BaseTool:
    """Return the tool `compact_conversation`, with which an agent summarizes its older messages.

    The tool only notes the request in the graph's private state; it is carried out before the next
    model call, when no tool call is open. Without a memory, as outside a graph, the tool says so.

    Args:
        name: Name of the memory, if there are several: the middleware's name, or the state key of
            nodes.

    Example:
        >>> compact_conversation_tool().name
        'compact_conversation'
    """

    def compact_conversation(  # noqa: D417  # the model does not know what is injected
        instruction: str = "",
        runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # none in a chain
    ) -> Command[Any] | str:
        """Replace the older messages of this conversation with a summary, to make room.

        Args:
            instruction: What the summary must keep, such as file names or decisions.
        """
        scope = BoundScope().of(runtime)
        orders = scope.state.get(COMPACT_REQUESTS) or state_in_run(COMPACT_REQUESTS) or {}
        found = [name] if name in orders else [*orders]
        if len(found) != 1:
            return f'Nothing was compacted: there is no memory "{name}" here.'
        done = "Before your next step, a summary replaces the older messages; the latest ones stay."
        return Command(
            update={
                COMPACT_REQUESTS: {found[0]: instruction.strip() or _DEFAULT_INSTRUCTION},
                "messages": [ToolMessage(done, tool_call_id=scope.call_id or "")],
            }
        )

    return StructuredTool.from_function(compact_conversation, parse_docstring=True)


def record_decision_tool() -> BaseTool:
    """Return the tool `record_decision`, with which an agent notes a decision and its reasons.

    The tool only answers: the memory reads the decision from the call, marks it as the model's
    (`by: model`), and shows it in the mode `reasoning`.

    Example:
        >>> record_decision_tool().name
        'record_decision'
    """

    def record_decision(
        decision: str,  # noqa: ARG001  # read from the call
        rationale: str = "",  # noqa: ARG001
        rejected: list[str] | None = None,  # noqa: ARG001
    ) -> str:
        """Note a decision of this conversation, so that it is kept with its reasons.

        Args:
            decision: The decision, in one sentence.
            rationale: Why it was made.
            rejected: The options that were rejected.
        """
        return "Noted."

    return StructuredTool.from_function(record_decision, name=RECORD_DECISION, parse_docstring=True)


def set_goal_tool() -> BaseTool:
    """Return the tool `set_goal`, with which an agent notes its objective.

    The tool only answers: the memory reads the goal from the call.

    Example:
        >>> set_goal_tool().name
        'set_goal'
    """

    def set_goal(goal: str) -> str:  # noqa: ARG001  # read from the call
        """Note the objective of this conversation; a new one takes the place of the one before.

        Args:
            goal: The objective, in one sentence.
        """
        return "Noted."

    return StructuredTool.from_function(set_goal, name=SET_GOAL, parse_docstring=True)


def read_message_tool(
    messages_key: str = "messages",
    *,
    name: str = "memory",
    archive: TranscriptStore | None = None,
) -> BaseTool:
    """Return the tool `read_message`, with which an agent reads a message in full.

    A marker names the message by its reference (`full text: message 3f09ac`), and so do the running
    summary and `history_search`. A message with tool calls is read with their arguments and
    results. The text comes from the graph's own state, so it follows forks.

    Args:
        messages_key: State key of the messages.
        name: Name of the memory: the middleware's name, or the state key of nodes.
        archive: The store that keeps what `CompactNode(prune=True)` removed from the state.

    Raises:
        ConfigurationError: When `archive` is not a store.

    Example:
        >>> read_message_tool().name
        'read_message'
    """
    if archive is not None:
        checked(archive, TranscriptStore, "archive", "read_message_tool(archive=store)")

    def read_message(  # noqa: D417  # the model does not know what is injected
        id: Annotated[str, BeforeValidator(str)],
        state: Annotated[Any, InjectedState],
        offset: int = 0,
        limit: int = 4_000,
    ) -> str:
        """Read a message of this conversation that is shortened or no longer shown.

        Args:
            id: The message's reference, as given by a marker, the notes or a search.
            offset: First character to read.
            limit: How many characters to read, at most 20,000.
        """
        held = state if isinstance(state, dict) else vars(state)
        memory = memory_state_in(held, name)
        messages = spoken_messages(held[messages_key])
        if archive is not None and memory is not None and memory["pruned"]:
            run = Run.of()
            rows = archive.rows(run.session(), user_id=run.user_id)
            messages = with_pruned(messages, memory, rows)
        return _read(messages, id.strip(), offset, limit)

    return StructuredTool.from_function(read_message, parse_docstring=True)


def memory_state_in(held: dict[str, Any], name: str) -> MemoryState | None:
    """Return the state of a memory in a graph's state; an agent's only one under any name."""
    by_name = held.get("token_memory") or {}
    found = by_name.get(name) or held.get(name) or state_in_run(name)
    if found is None and len(by_name) == 1:
        (found,) = by_name.values()
    is_state = isinstance(found, dict) and {"version", "summary", "cuts"} <= found.keys()
    return load_state(found) if is_state else None


def _read(messages: Sequence[BaseMessage], key: str, offset: int, limit: int) -> str:
    """Return a part of a message's text, calls and results, with its place in the whole.

    Args:
        messages: The conversation, system messages left out.
        key: Reference or id of the message.
        offset: First character.
        limit: Characters, at most 20,000.
    """
    found = messages_named(messages, key)
    if not found:
        return f"There is no message {key} in this conversation; it may have been removed."
    if len(found) > 1:
        longer = ", ".join(f"{reference(m.id, 12)} ({role_of(m)})" for m in found)
        return f"{key} names {len(found)} messages; take one of {longer}."
    text = "\n".join(filter(None, _parts_of(found[0], messages)))
    start = min(max(offset, 0), len(text))
    end = min(start + max(1, min(limit, _LONGEST_READ)), len(text))
    rest = f"; go on with offset={end}" if end < len(text) else ""
    return f"[characters {start:,} to {end:,} of {len(text):,}{rest}]\n{text[start:end]}"


def _parts_of(message: BaseMessage, messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Yield the text of a message, and its tool calls, each with its result.

    The running summary names a call, and a marker its arguments, by the message that made it.
    """
    yield text_of(message)
    if not isinstance(message, AIMessage):
        return
    group = next(one for one in groups(messages) if any(m is message for m in one.messages))
    for maker, calls in paired_calls(group.messages):
        for call, result in calls if maker.id == message.id else ():
            args = call["args"]
            if not isinstance(args, str):
                args = json.dumps(args, ensure_ascii=False, default=str)
            yield well_formed(f"{call['name']}({args})")
            if result is not None:
                yield f"→ {text_of(result)}"
