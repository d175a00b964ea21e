"""One step of the memory inside a graph: compact where it is due, view, say what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.config import get_stream_writer

from langchain_tokenmem.core.planning import Steps
from langchain_tokenmem.core.view import View
from langchain_tokenmem.doors._quiet import unheard
from langchain_tokenmem.memory import TokenMemory
from langchain_tokenmem.state import MemoryState, new_state

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
        around: Keywords of `TokenMemory.view` and `compact`: system, tools, overhead, budget.
        steps: Which steps may be taken; None for none: then only the view is made.
        order: Instruction of a compaction that the agent asked for; None where it did not.
    """

    messages: Sequence[BaseMessage]
    state: MemoryState | None
    around: Mapping[str, Any] = field(default_factory=dict)
    steps: Steps | None = "all"
    order: str | None = None

    @property
    def by_hand(self) -> dict[str, Any]:
        """Keywords of a compaction that somebody asked for."""
        if not self.order:
            return {"steps": self.steps}
        return {"force": True, "instruction": self.order}


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


def take(memory: TokenMemory, step: Step) -> Stepped:
    """Take a step."""
    state = step.state
    if step.steps is not None or step.order:
        with unheard():
            state = memory.compact(step.messages, state, **step.around, **step.by_hand)
    return _stepped(step, state, memory.view(step.messages, state, **step.around))


async def atake(memory: TokenMemory, step: Step) -> Stepped:
    """Take a step without blocking the event loop."""
    state = step.state
    if step.steps is not None or step.order:
        with unheard():
            state = await memory.acompact(step.messages, state, **step.around, **step.by_hand)
    view = await asyncio.to_thread(memory.view, step.messages, state, **step.around)
    return _stepped(step, state, view)


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
