"""Trace policies: what the runs of the memory's own steps record in a trace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langgraph import types


def without_payload() -> Any:
    """Return the policy of a middleware whose spans record that it ran, and not on what.

    None before LangGraph has `TracePolicy`. The model's own run has the messages that were sent.
    """
    if not hasattr(types, "TracePolicy"):
        return None
    omit = types.omit_payload
    return types.TracePolicy(process_inputs=omit, process_outputs=omit)


def without_channels(private: Collection[str]) -> dict[str, Any]:
    """Return the keywords of `add_node` for a node whose run does not record these channels.

    Empty before LangGraph has `TracePolicy`.
    """

    def recorded(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: held for key, held in value.items() if key not in private}

    if not hasattr(types, "TracePolicy"):
        return {}
    policy = types.TracePolicy(process_inputs=recorded, process_outputs=recorded)
    return {"trace_policy": policy}
