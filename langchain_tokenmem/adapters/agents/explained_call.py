"""Explanation of a model call that an agent has made, from its checkpoints.

The agent's model node runs once more on the state of that call, with all middleware, and the memory
answers in the model's place. So system text, tools and views are made by the code that made them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import StateSnapshot

from langchain_tokenmem.adapters.past_replies import past_reply
from langchain_tokenmem.core.explained_request import change_between
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState

ASKED = "token_memory_explained"
"""Key in the state under which the model node is asked for an explanation instead of a call."""


@dataclass
class AskedExplanation:
    """What is asked of a memory in place of a model call, and its answer.

    Attributes:
        memory: Name of the memory that is asked.
        found: Its explanation; None until it was reached.
    """

    memory: str
    found: Explanation | None = None


@dataclass(frozen=True)
class MadeCall:
    """A model call as the checkpoints hold it.

    Attributes:
        agent: The agent that made it.
        config: The config of its thread.
        name: Name of the memory.
        context: The run's context, for middleware that reads it.
        number: Its number among the replies of the thread, from 1.
        values: The agent's state as the call had it, with the memory's state after the call.
        before: The memory's state before the call; None for none.
    """

    agent: Any
    config: RunnableConfig
    name: str
    context: Any
    number: int
    values: dict[str, Any]
    before: MemoryState | None

    @property
    def asked(self) -> AskedExplanation:
        """The question to the memory."""
        found: AskedExplanation = self.values[ASKED]
        return found

    @property
    def node(self) -> Any:
        """The agent's model node."""
        return self.agent.nodes["model"].bound

    @property
    def run_config(self) -> RunnableConfig:
        """The config that the node had, as far as it is read there."""
        known = self.config.get("configurable") or {}
        parents = known.get("checkpoint_ns") or ""
        configurable = {
            **known,
            "checkpoint_ns": "|".join(filter(None, (parents, "model"))),
            "__pregel_runtime": Runtime(context=self.context),
            "__pregel_checkpointer": self.agent.checkpointer,
        }
        return {**self.config, "configurable": configurable}

    def answer(self) -> Explanation:
        """Return the explanation, once the node has run.

        Raises:
            ConfigurationError: When the agent does not have the memory.
        """
        told = self.asked.found
        if told is None:
            raise ConfigurationError(
                f"The agent has no memory of the name {self.name!r}, or middleware in front of it "
                f"answers without calling the model."
            )
        thread = str((self.config.get("configurable") or {}).get("thread_id", ""))
        after = (self.values.get("token_memory") or {}).get(self.name)
        change = (after and change_between(self.before, after)) or told.change
        return replace(told, session=thread, call=self.number, change=change)


def made_call(
    agent: Any,
    config: RunnableConfig,
    history: Iterable[StateSnapshot],
    *,
    name: str,
    call: int | None,
    context: Any,
) -> MadeCall:
    """Return a call from the history of a thread.

    Args:
        agent: The agent.
        config: The config of the thread.
        history: Its checkpoints, the newest first.
        name: Name of the memory.
        call: Number of the reply in the thread, from 1; None for the newest.
        context: The run's context.

    Raises:
        ConfigurationError: When the thread has no such reply, or no checkpoint right after it.
    """
    made = past_reply(history, call)
    values = {**made.found.values, "messages": made.messages, ASKED: AskedExplanation(name)}
    older = next(iter(made.older), None)
    states = older.values.get("token_memory") or {} if older else {}
    return MadeCall(agent, config, name, context, made.number, values, states.get(name))
