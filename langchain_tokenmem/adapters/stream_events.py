"""What a run reports about the memory: events in LangGraph's custom stream, metadata, traces."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph import types
from langgraph.config import get_stream_writer
from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer

from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.core.view import View
from langchain_tokenmem.core.working_notes.mode_profiles import mode_in
from langchain_tokenmem.state import MemoryState, new_state
from langchain_tokenmem.turns.conversation import TurnResult

EVENT = "tokenmem"
"""Value of `type` in every event of the memory, and the name of their projection."""


class TokenMemoryTransformer(StreamTransformer):
    """The memory's events as `run.extensions["tokenmem"]` of `stream_events(version="v3")`.

    An agent has it with its `TokenMemoryMiddleware`; give it to a graph when it is compiled. Events
    of a sub-graph are in the projection of that sub-graph.

    Example:
        >>> from langgraph.graph import START, StateGraph
        >>> from langchain_tokenmem import MemoryMessagesState, TokenMemory, memory_nodes
        >>> builder = StateGraph(MemoryMessagesState)
        >>> _ = builder.add_node("model", lambda state: {"messages": []})
        >>> _ = builder.add_edge(START, memory_nodes(builder, TokenMemory()))
        >>> graph = builder.compile(transformers=[TokenMemoryTransformer])
        >>> run = graph.stream_events({"messages": [("human", "hi")]}, version="v3")
        >>> [event["event"] for event in run.extensions["tokenmem"]]
        ['view']
    """

    required_stream_modes = ("custom",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._events: StreamChannel[dict[str, Any]] = StreamChannel()

    def __repr__(self) -> str:
        return f"TokenMemoryTransformer({self.scope!r})"

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {EVENT: self._events}

    def process(self, event: ProtocolEvent) -> bool:
        """Add an event of the memory to the projection; none is taken out of the stream."""
        data = event["params"]["data"]
        is_ours = event["method"] == "custom" and isinstance(data, dict)
        if is_ours and data.get("type") == EVENT and event["params"]["namespace"] == [*self.scope]:
            self._events.push(data)
        return True


def _write(name: str, kind: str, **fields: Any) -> None:
    """Write an event into the graph's custom stream; outside of a graph it does nothing."""
    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):
        return
    writer({"type": EVENT, "event": kind, "memory": name, **fields})


def write_changes(name: str, old: MemoryState | None, new: MemoryState) -> None:
    """Write the changes between two states into the graph's custom stream.

    Args:
        name: Name of the memory: the middleware's name, or the state key of nodes.
        old: The state before; None if there was none.
        new: The state after.
    """
    before = old or new_state()
    if mode_in(before) != mode_in(new):
        _write(name, "mode", mode=mode_in(new))
    fresh = [key for key, cut in new["cuts"].items() if before["cuts"].get(key) != cut]
    if fresh:
        _write(name, "compaction", message_ids=fresh)
    summary = new["summary"]
    if summary is not None and summary != before["summary"]:
        newest = summary["entries"][-1]
        about = {key: newest[key] for key in ("tokens", "model", "reason")}
        covers = {"covers_to": summary["covers_to"], "covered": summary["covered"]}
        _write(name, "summary", **covers, **about)


def write_view(name: str, view: View) -> None:
    """Write the size of a request that is about to be sent into the graph's custom stream."""
    usage = view.usage
    sizes = {"tokens": usage.input_tokens, "limit": usage.max_tokens}
    _write(name, "view", **sizes, percent=usage.percent_used, parts={**usage.parts})


def write_reply(
    name: str,
    messages: Sequence[BaseMessage] = (),
    *,
    duration_s: float | None = None,
    error: BaseException | None = None,
) -> None:
    """Write that a model call has ended into the graph's custom stream.

    Args:
        name: Name of the memory.
        messages: What the model said; its newest message has the tokens of the call.
        duration_s: Seconds of the call; None if unknown.
        error: The error that the call failed with.
    """
    replies = [message for message in messages if isinstance(message, AIMessage)]
    usage: Any = (replies[-1].usage_metadata if replies else None) or {}
    details = usage.get("input_token_details") or {}
    _write(
        name,
        "reply",
        duration_s=duration_s,
        input_tokens=usage.get("input_tokens"),
        cached_tokens=details.get("cache_read"),
        output_tokens=usage.get("output_tokens"),
        error=type(error).__name__ if error else None,
    )


def metadata_of(result: TurnResult) -> dict[str, Any]:
    """Return the metadata of the model call after a turn: numbers, no text of a message.

    `tokenmem.hidden` counts messages that are summarized, shortened or left out;
    `tokenmem.reason` is that of the newest change, and missing if nothing was changed.
    """
    state, view = result.state, result.view
    covered = state["summary"]["covered"] if state["summary"] else 0
    is_changed = "change" in state or state["summary"]
    change = change_between(None, state) if is_changed else None
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


def without_payload() -> Any:
    """Return a trace policy that records that a middleware ran, but not its input and output.

    The model's own run has the messages that were sent.
    """
    omit = types.omit_payload
    return types.TracePolicy(process_inputs=omit, process_outputs=omit)


def without_channels(private: Collection[str]) -> dict[str, Any]:
    """Return keywords for `add_node` that keep these channels out of the node's trace."""

    def recorded(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: held for key, held in value.items() if key not in private}

    policy = types.TracePolicy(process_inputs=recorded, process_outputs=recorded)
    return {"trace_policy": policy}
