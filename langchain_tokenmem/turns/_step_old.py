"""One step of the memory inside a graph: compact where it is due, view, say what happened.

A summary that takes its time is made beside the model call and handed over to the next one; at
the hard limit the call waits for it, for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.config import get_stream_writer

from langchain_tokenmem.adapters._quiet_old import unheard
from langchain_tokenmem.adapters.graphs.archive import config_scope
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.planning import Steps
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View
from langchain_tokenmem.errors import ScopeError, TokenMemoryError
from langchain_tokenmem.memory.background import wait_for
from langchain_tokenmem.memory.recalled_blocks import Whose, question_of
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, load_state, new_state

EVENT = "tokenmem"
"""Value of `type` in every event that the memory writes into a graph's custom stream."""

ORDER_DONE = ""
"""Stands for an order that was carried out; None would be taken for an update left out."""

Writer = Callable[[Any], None]


@dataclass(frozen=True)
class Step:
    """What the memory is asked before one model call.

    Attributes:
        messages: The conversation as the graph's state holds it.
        state: What was decided so far.
        around: What surrounds the conversation.
        steps: Which steps may be taken; None for none: then only the view is made.
        order: Instruction of a compaction that the agent asked for; None where it did not.
        key: Whose conversation it is, for summaries in the background; None: there are none.
        whose: Where it is kept for recall; None: nothing is recalled.
    """

    messages: Sequence[BaseMessage]
    state: MemoryState | None
    around: RequestOptions = field(default_factory=RequestOptions)
    steps: Steps | None = "all"
    order: str | None = None
    key: Hashable = None
    whose: Whose | None = None

    @property
    def by_hand(self) -> dict[str, Any]:
        """Keywords of a compaction that somebody asked for."""
        if not self.order:
            return {"steps": self.steps}
        return {"force": True, "instruction": self.order}

    @property
    def may_wait(self) -> bool:
        """Whether a summary may be left to the next call."""
        return self.key is not None and self.steps == "all"


@dataclass(frozen=True)
class Stepped:
    """The outcome of a step.

    Attributes:
        state: The state after it.
        view: The request of the model call.
        changed: Whether there is a new state to write.
    """

    state: MemoryState
    view: View
    changed: bool


def key_of(config: RunnableConfig | None, name: str) -> Hashable:
    """Return whose conversation a run is about: thread, namespace and memory; None without one.

    The namespace holds the ids of tasks, so that sub-agents at work side by side are told apart.

    Args:
        config: The run's config; None for the one that LangChain keeps for the running task.
        name: Whose memory: the middleware's name, or the state key of nodes.
    """
    configurable = ensure_config(config).get("configurable") or {}
    thread = configurable.get("thread_id")
    if not thread:
        return None
    # The last part names the node itself.
    parents = (configurable.get("checkpoint_ns") or "").rpartition("|")[0]
    return (str(thread), parents, name)


def whose_of(memory: TokenMemory, config: RunnableConfig | None) -> Whose | None:
    """Return where a run's conversation is kept for recall; None where nothing is recalled."""
    if memory.recall is None:
        return None
    try:
        return Whose(*config_scope(config))
    except ScopeError as error:
        memory.warn_once(f"Nothing is recalled: {error}")
        return None


def take(memory: TokenMemory, step: Step) -> Stepped:
    """Take a step."""
    planned = _prepared(memory, step)
    if planned.awaited is not None:
        wait_for(planned.awaited, memory.max_wait_s)
        planned = _handed_over(memory, planned)
    if planned.steps is None and not planned.order:
        view = memory.view(step.messages, planned.state, **step.around)
        return _stepped(step, planned.state, view)
    with unheard():
        done = memory.compact_and_view(
            step.messages, planned.state, **step.around, **planned.by_hand
        )
    return _stepped(step, *done)


async def atake(memory: TokenMemory, step: Step) -> Stepped:
    """Take a step without blocking the event loop."""
    planned = await asyncio.to_thread(_prepared, memory, step)
    if planned.awaited is not None:
        await asyncio.to_thread(wait_for, planned.awaited, memory.max_wait_s)
        planned = await asyncio.to_thread(_handed_over, memory, planned)
    if planned.steps is None and not planned.order:
        view = await asyncio.to_thread(memory.view, step.messages, planned.state, **step.around)
        return _stepped(step, planned.state, view)
    with unheard():
        done = await memory.acompact_and_view(
            step.messages, planned.state, **step.around, **planned.by_hand
        )
    return _stepped(step, *done)


@dataclass(frozen=True)
class _Prepared(Step):
    """A step whose summary, if one is due, is being made in the background.

    Attributes:
        awaited: The summary to wait for: without it the request does not fit.
    """

    awaited: Future[None] | None = None


def _prepared(memory: TokenMemory, step: Step) -> _Prepared:
    """Take what waits for the conversation, and start the summary that is due behind the reply."""
    ready = _recalled(memory, _handed_over(memory, _Prepared(**vars(step))))
    if step.order:
        # What is being made need not be paid for twice.
        return replace(ready, awaited=memory.jobs.running(step.key))
    if not (memory.background and step.may_wait):
        return ready
    planned = memory.plan(ready.messages, ready.state, **ready.around)
    if not planned.fold:
        return ready
    job = memory.jobs.start(step.key, lambda: _summarize(memory, ready))
    is_hard = planned.before > memory.limit_of(ready.around)
    return replace(ready, steps="shorten_if_enough", awaited=job if is_hard else None)


def _handed_over(memory: TokenMemory, step: _Prepared) -> _Prepared:
    if step.key is None or step.steps is None:
        return step
    return replace(step, state=memory.handover.take(step.key, step.messages, step.state))


def _recalled(memory: TokenMemory, step: _Prepared) -> _Prepared:
    """Keep what is new for later recalls, and give the newest question its memory block."""
    if memory.recall is None or step.whose is None or not step.messages:
        return step
    try:
        state = _kept(memory.recall.store, step, step.whose)
    except TokenMemoryError as error:
        name = step.whose.session_id
        memory.warn_once(f"Session {name!r}: nothing is kept for recall nor recalled, {error}")
        return step
    if question_of(step.messages, load_state(state)) is None:
        return replace(step, state=state)
    branch = {message.id or "": message for message in step.messages}
    whose = replace(step.whose, branch=branch, pruned=load_state(state)["pruned"])
    return replace(step, state=memory.recalled(step.messages, state, whose, **step.around))


def _kept(store: Any, step: Step, whose: Whose) -> MemoryState | None:
    """Write the messages that are new to the recall's store; return the state that knows it."""
    ids = [message.id for message in step.messages]
    known = load_state(step.state)
    last = known["stored_to"]
    new = step.messages[ids.index(last) + 1 :] if last in ids else step.messages
    said = [message for message in new if role_of(message) not in {"system", "remove"}]
    if not said:
        return step.state
    store.add(whose.session_id, said, user_id=whose.user_id)
    return {**known, "stored_to": ids[-1]}


def _summarize(memory: TokenMemory, step: Step) -> None:
    """Make the summary that is due, for the next call; runs in a thread of its own."""
    with unheard():
        state = memory.compact(step.messages, step.state, **step.around)
    memory.handover.put(step.key, step.messages, step.state, state)


def _stepped(step: Step, state: MemoryState | None, view: View) -> Stepped:
    old, new = step.state or new_state(), state or new_state()
    return Stepped(new, view, changed=new != old)


def events_of(old: MemoryState | None, new: MemoryState, name: str) -> Iterator[dict[str, Any]]:
    """Return what changed between two states, as events for LangGraph's custom stream.

    Args:
        old: The state before; None for nothing.
        new: The state after.
        name: Whose memory: the middleware's name, or the state key of nodes.
    """
    before = old or new_state()
    fresh = [key for key, cut in new["cuts"].items() if before["cuts"].get(key) != cut]
    if fresh:
        yield {"type": EVENT, "event": "compaction", "memory": name, "message_ids": fresh}
    summary = new["summary"]
    if summary is not None and summary != before["summary"]:
        facts = ("covers_to", "covered", "tokens", "model", "reason")
        yield {
            "type": EVENT,
            "event": "summary",
            "memory": name,
            **{fact: summary[fact] for fact in facts},  # type: ignore[literal-required]
        }


def stream_writer() -> Writer | None:
    """Return the writer of the graph's custom stream; None outside of a graph."""
    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):
        return None


def announce(step: Step, stepped: Stepped, name: str, writer: Writer | None) -> None:
    """Write what a step did into the graph's custom stream, where there is one."""
    if writer is None or not stepped.changed:
        return
    for event in events_of(step.state, stepped.state, name):
        writer(event)
