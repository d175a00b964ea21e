"""Past calls of a model, read from the checkpoints of a thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.runtime import Runtime
from langgraph.types import StateSnapshot

from langchain_tokenmem.adapters.agent_tools import COMPACT_REQUESTS
from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.errors import ConfigurationError


@dataclass(frozen=True)
class PastReply:
    """A reply of the model, read from the checkpoints.

    Attributes:
        number: Its number among the replies of the thread, from 1.
        found: The first checkpoint with it.
        older: The checkpoints before that, the newest first; read lazily.
        messages: The conversation at the time of the call.
    """

    number: int
    found: StateSnapshot
    older: Iterable[StateSnapshot]
    messages: list[BaseMessage]


def check_thread(graph: Any, config: RunnableConfig) -> None:
    """Raise ConfigurationError for a graph without checkpointer, or a config without thread."""
    if not graph.checkpointer:
        raise ConfigurationError(
            "Past calls are read from checkpoints, and this graph has no checkpointer: build it "
            "with checkpointer=TokenMemorySaver(store), or another one."
        )
    known = merge_configs(graph.config, config).get("configurable") or {}
    if known.get("thread_id") in (None, ""):
        raise ConfigurationError(
            'The config names no thread: pass {"configurable": {"thread_id": "..."}}.'
        )


def past_reply(
    history: Iterable[StateSnapshot],
    call: int | None,
    key: str = "messages",
    node: str | None = None,
) -> PastReply:
    """Return a reply from the history of a thread.

    Args:
        history: The checkpoints of the thread, the newest first.
        call: Number of the reply in the thread, from 1; None for the newest of the model.
        key: State key of the messages.
        node: Name of the model's node; None if it is not known.

    Raises:
        ConfigurationError: When the thread has no such reply, no checkpoint right after it, or if
            the model did not write it.
    """
    snapshots = iter(history)
    newest = next(snapshots, None)
    replies = _replies(newest, key) if newest else []
    number = len(replies) if call is None else call
    if newest is None or not replies:
        raise ConfigurationError(
            "The thread has no reply of a model yet: check its thread_id, and the checkpointer."
        )
    if not 1 <= number <= len(replies):
        raise ConfigurationError(
            f"The thread has {len(replies)} replies of the model; call={number} is not one of them."
        )
    reply, found, older = replies[number - 1], newest, []
    for snapshot in snapshots:
        known = _replies(snapshot, key)
        if reply not in known:
            if not _is_from_others(snapshot, found, node):
                older = [snapshot]
                break
            if call is not None or not known:
                raise ConfigurationError(
                    f"Reply {number} of the thread was not written by the model: it came with an "
                    f"input, or from another node or middleware. Explain another call."
                )
            number, reply = len(known), known[-1]
        found = snapshot
    if _replies(found, key)[-1] != reply:
        raise ConfigurationError(
            f"No checkpoint was kept right after call {number}. Retention (keep_last, older_than, "
            f"prune) deletes old ones, and with durability='exit' only the last call of each run "
            f"has one. Explain another call, or keep more checkpoints."
        )
    messages = found.values[key]
    place = next(i for i, message in enumerate(messages) if message.id == reply)
    return PastReply(number, found, chain(older, snapshots), messages[:place])


def _replies(snapshot: StateSnapshot, key: str) -> list[str | None]:
    messages = snapshot.values.get(key, [])
    return [message.id for message in messages if isinstance(message, AIMessage)]


def _is_from_others(before: StateSnapshot, after: StateSnapshot, node: str | None) -> bool:
    """Return whether the step between two checkpoints was not one of the model's node.

    Args:
        before: A checkpoint.
        after: The next one that was kept; there may have been steps between them.
        node: Name of the model's node; None if it is not known.
    """
    first, second = ((one.metadata or {}).get("step") for one in (before, after))
    if first is None or second != first + 1 or not before.next:
        return False
    return "__start__" in before.next or (node is not None and node not in before.next)


ASKED = "token_memory_explained"
"""Key in the state of a `PastModelCall`: the model node is asked to explain it, not to call."""


class _NoModel(BaseCallbackHandler):
    """Raises before a model is called."""

    raise_error = run_inline = True

    def __init__(self, error: Exception) -> None:
        self._error = error

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        raise self._error

    on_llm_start = on_chat_model_start


class PastModelCall:
    """A call of an agent's model node that is repeated in order to explain it.

    The node runs again with all middleware, and the memory answers in the model's place. So system
    text, tools and views are made by the same code as before.

    Args:
        agent: The agent.
        config: The config of the thread.
        history: Its checkpoints, the newest first.
        name: Name of the memory that is asked.
        call: Number of the reply in the thread, from 1; None for the newest.
        context: The run's context, for middleware that reads it.

    Attributes:
        node: The node to run.
        values: The state that it is run with.
        config: The config of that call.
        name: The same.
        found: The explanation of the memory; None until it was reached.

    Raises:
        ConfigurationError: When the thread has no such reply, or no checkpoint right after it, or
            if the call was made without the memory.
    """

    def __init__(
        self,
        agent: Any,
        config: RunnableConfig,
        history: Iterable[StateSnapshot],
        *,
        name: str,
        call: int | None,
        context: Any,
    ) -> None:
        self.name, self._made = name, past_reply(history, call, node="model")
        self.found: Explanation | None = None
        found = self._made.found.values
        if name not in (found.get(COMPACT_REQUESTS) or {}):  # a call of the memory leaves an entry
            raise ConfigurationError(
                f"The agent has no memory named {name!r}, or had none at call {self._made.number}."
            )
        known = config.get("configurable") or {}
        configurable = {
            **known,
            "checkpoint_ns": "|".join(filter(None, (known.get("checkpoint_ns"), "model"))),
            "__pregel_runtime": Runtime(context=context),
            "__pregel_checkpointer": agent.checkpointer,
        }
        self.node: Any = agent.nodes["model"].bound
        self.values = {**found, "messages": self._made.messages, ASKED: self}
        # Of a whole configuration, merge_configs takes the thread of a run around this one.
        handlers: RunnableConfig = {"callbacks": [_NoModel(self._not_reached())]}
        given: RunnableConfig = {"callbacks": config.get("callbacks")}
        callbacks = merge_configs(given, handlers)["callbacks"]
        self.config: RunnableConfig = {
            **config,
            "configurable": configurable,
            "callbacks": callbacks,
        }

    def explanation(self) -> Explanation:
        """Return the explanation, once the node has run.

        Raises:
            ConfigurationError: When the agent does not have the memory.
        """
        if self.found is None:
            raise self._not_reached()
        older = next(iter(self._made.older), None)
        before = (older.values.get("token_memory") or {}).get(self.name) if older else None
        after = (self.values.get("token_memory") or {}).get(self.name)
        change = (after and change_between(before, after)) or self.found.change
        thread = str(self.config["configurable"].get("thread_id", ""))
        return replace(self.found, session=thread, call=self._made.number, change=change)

    def _not_reached(self) -> ConfigurationError:
        return ConfigurationError(
            f"The agent has no memory named {self.name!r}, or middleware before it "
            f"answers or calls a model; put the memory first in the list."
        )
