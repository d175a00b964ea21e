"""The memory as nodes of a graph: plain Runnables from state to update."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_tokenmem.adapters.agent_tools import ORDERS
from langchain_tokenmem.adapters.graphs.archive import Archive, Leaving, archived, config_scope
from langchain_tokenmem.adapters.graphs.state import STAMP_KEY, VIEW_KEY, stamp_of, value_of
from langchain_tokenmem.core.planning import Steps
from langchain_tokenmem.core.request_options import Around
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.recalled_blocks import with_numbers
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns._step_old import (
    ORDER_DONE,
    Step,
    Stepped,
    announce,
    atake,
    key_of,
    stream_writer,
    take,
    whose_of,
)


@dataclass(frozen=True)
class _Keys:
    """State keys: the conversation, the view, the memory's own state."""

    messages: str
    view: str
    state: str


class _Update(dict[str, Any]):
    """An update of a graph's state whose view is nobody's message.

    LangGraph's `stream_mode="messages"` shows each new message among the `values()` of what a node
    returns, and would show the system message of the view as if it were an answer. The state is
    written from `items()`.
    """

    def __init__(self, view_key: str) -> None:
        super().__init__()
        self._view_key = view_key

    def values(self) -> Any:
        """Return the values without the view."""
        return [value for key, value in self.items() if key != self._view_key]


class _StepNode(Runnable[Any, dict[str, Any]]):
    """A node that takes one step of the memory and writes state and view."""

    _steps: Steps | None = "all"
    _is_last = True  # whether the model's node comes next, so that the view is its request
    _recalls = False

    def __init__(
        self,
        memory: TokenMemory,
        *,
        system: str | BaseMessage | None = None,
        tools: Sequence[Any] | None = None,
        overhead_tokens: int = 0,
        input_messages_key: str = "messages",
        output_messages_key: str = VIEW_KEY,
        state_key: str = "memory",
    ) -> None:
        if output_messages_key == input_messages_key:
            raise ConfigurationError(
                f"output_messages_key is {output_messages_key!r}, the key of the conversation "
                "itself: a view must not take its place. Name another key."
            )
        self.memory = memory
        self._around: Around = {
            "system": system,
            "tools": tools,
            "overhead_tokens": overhead_tokens,
        }
        self._keys = _Keys(input_messages_key, output_messages_key, state_key)

    def invoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ARG002  # the signature of a Runnable
    ) -> dict[str, Any]:
        """Return the update of the graph's state."""
        step = self._step(input, config)
        if not step.messages:
            return {}
        stepped = take(self.memory, step)
        return self._update(step, stepped, self._leaving(step, stepped, config))

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,  # noqa: ARG002  # the signature of a Runnable
    ) -> dict[str, Any]:
        """Do the same as `invoke` without blocking the event loop."""
        step = self._step(input, config)
        if not step.messages:
            return {}
        stepped = await atake(self.memory, step)
        leaving = await asyncio.to_thread(self._leaving, step, stepped, config)
        return self._update(step, stepped, leaving)

    def _step(self, state: Any, config: RunnableConfig | None) -> Step:
        return Step(
            messages=value_of(state, self._keys.messages) or [],
            state=value_of(state, self._keys.state),
            around=self._around,
            steps=self._steps,
            order=(value_of(state, ORDERS) or {}).get(self._keys.state),
            key=key_of(config, self._keys.state),
            whose=whose_of(self.memory, config) if self._recalls else None,
        )

    def _leaving(
        self,
        step: Step,  # noqa: ARG002  # for subclasses that remove
        stepped: Stepped,  # noqa: ARG002
        config: RunnableConfig | None,  # noqa: ARG002
    ) -> Leaving:
        """Return what goes out of the graph's messages: nothing."""
        return Leaving()

    def _update(self, step: Step, stepped: Stepped, leaving: Leaving) -> dict[str, Any]:
        stepped = _without(stepped, leaving)
        announce(step, stepped, self._keys.state, stream_writer())
        update = _Update(self._keys.view)
        if self._is_last:
            for warning in stepped.view.warnings:
                self.memory.warn_once(f"{self.get_name()}: {warning}")
            gone = {message.id for message in leaving.removals}
            left = [message for message in step.messages if message.id not in gone]
            update[self._keys.view] = list(stepped.view.messages)
            update[STAMP_KEY] = stamp_of(left, stepped.state if stepped.changed else step.state)
        if stepped.changed:
            update[self._keys.state] = stepped.state
        if leaving.removals:
            update[self._keys.messages] = list(leaving.removals)
        if step.order:
            update[ORDERS] = {self._keys.state: ORDER_DONE}
        return update


def _without(stepped: Stepped, leaving: Leaving) -> Stepped:
    """Return the outcome of a step whose state knows what has left the graph's messages."""
    if not leaving.numbers:
        return stepped
    pruned = with_numbers(stepped.state["pruned"], leaving.numbers)
    return replace(stepped, state={**stepped.state, "pruned": pruned}, changed=True)


class SummarizeNode(_StepNode):
    """Folds the oldest groups into the running summary where it is due, and writes the view.

    Args:
        memory: Decides what is shown, and has the summarizer.
        system: System text that the model node sends, if it does not stand in the messages.
        tools: Tool schemas that the model node sends.
        overhead_tokens: Tokens around the conversation that are in neither of these.
        input_messages_key: State key of the messages.
        output_messages_key: State key of the view.
        state_key: State key of the memory's state.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> update = SummarizeNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        >>> [message.content for message in update["llm_input_messages"]]
        ['hi']
    """


class MemoryNode(_StepNode):
    """Does everything before a model call in one superstep: recall, compaction, summary, view.

    Also a `pre_model_hook` of `create_react_agent(state_schema=MemoryAgentState)`.

    Args:
        memory: Decides what is shown, and has the summarizer.
        system: System text that the model node sends, if it does not stand in the messages.
        tools: Tool schemas that the model node sends.
        overhead_tokens: Tokens around the conversation that are in neither of these.
        input_messages_key: State key of the messages.
        output_messages_key: State key of the view.
        state_key: State key of the memory's state.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> update = MemoryNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        >>> [message.content for message in update["llm_input_messages"]]
        ['hi']
    """

    _recalls = True


class CompactNode(_StepNode):
    """Shortens old tool results where it is due, without any model call, and writes the view.

    By default the graph's messages stay as they are. With an archive and `prune` the state stays
    bounded: messages that the running summary covers are written to the transcript store, read
    back, and only then removed, one by one by their ids; never a system message, a pinned one or
    one that the view still shows. Code that counts on an append-only list must not prune.

    Args:
        memory: Decides what is shown.
        folding_follows: Leave it to a `SummarizeNode` behind this one where shortening is not
            enough, so that the prefix changes once.
        archive: Keeps the transcript, under the thread's id.
        prune: Remove covered messages from the graph's state.
        keywords: Those of `MemoryNode`.

    Raises:
        ConfigurationError: When `prune` is asked for without an archive.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> "messages" in CompactNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        False
    """

    def __init__(
        self,
        memory: TokenMemory,
        *,
        folding_follows: bool = False,
        archive: TranscriptStore | None = None,
        prune: bool = False,
        **keywords: Any,
    ) -> None:
        super().__init__(memory, **keywords)
        if prune and archive is None:
            raise ConfigurationError(
                "prune=True removes messages from the graph's state: give the store that keeps "
                "them, CompactNode(memory, archive=TranscriptStore(...), prune=True)."
            )
        self._steps = "shorten_if_enough" if folding_follows else "shorten"
        self._is_last = not folding_follows
        self._archive = archive
        self._prune = prune

    def _step(self, state: Any, config: RunnableConfig | None) -> Step:
        # An agent's order is for a node that folds.
        return replace(super()._step(state, config), order=None)

    def _leaving(self, step: Step, stepped: Stepped, config: RunnableConfig | None) -> Leaving:
        if self._archive is None:
            return Leaving()
        archive = Archive(self._archive, *config_scope(config))
        found = archived(archive, step.messages, stepped.state)
        return found if self._prune else Leaving()


class RecallNode(_StepNode):
    """Brings verbatim old messages back because they match the newest question.

    They ride in a memory block inside that question, made once and kept in the memory's state; the
    view itself is written by the nodes behind. Without `TokenMemory(recall=...)` nothing happens.

    Args:
        memory: Has the recall.
        keywords: Those of `MemoryNode`.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> RecallNode(TokenMemory()).invoke({"messages": [HumanMessage("hi")]})
        {}
    """

    _steps = None
    _is_last = False
    _recalls = True

    def _step(self, state: Any, config: RunnableConfig | None) -> Step:
        # An agent's order is for a node that folds.
        return replace(super()._step(state, config), order=None)
