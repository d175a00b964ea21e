"""State schemas of graphs with a memory, and the view of a model node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

from langchain_tokenmem.adapters.reducers import merge_by_name
from langchain_tokenmem.core.argument_checks import as_messages, checked
from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, new_state

VIEW_KEY = "llm_input_messages"
STAMP_KEY = "llm_input_stamp"
UNTRACKED = frozenset({VIEW_KEY, STAMP_KEY})
"""Channels that live for one run: never in a checkpoint, never in the output."""


class MemoryMessagesState(TypedDict):
    """Messages with a memory: LangGraph's `MessagesState` and what the memory keeps beside it.

    Attributes:
        messages: The conversation; nothing is removed from it by default.
        memory: What the memory decided so far; lives in the checkpoints.
        llm_input_messages: The view for the next model call, of this run only. Read it by
            `memory_input`, which makes it anew where it is missing or stale.
        llm_input_stamp: What the view was made from.
        token_memory_orders: Compactions that an agent asked for.

    Example:
        >>> from langgraph.graph import StateGraph
        >>> sorted(StateGraph(MemoryMessagesState).channels)[:2]
        ['llm_input_messages', 'llm_input_stamp']
    """

    messages: Annotated[list[AnyMessage], add_messages]
    memory: NotRequired[MemoryState]
    llm_input_messages: NotRequired[Annotated[list[AnyMessage], UntrackedValue]]
    # Two memories may write in one step: whose stamp it is not, makes its view anew.
    llm_input_stamp: NotRequired[Annotated[str, UntrackedValue(str, guard=False)]]
    token_memory_orders: NotRequired[Annotated[dict[str, str], merge_by_name]]


class MemoryAgentState(MemoryMessagesState):
    """The same for `create_react_agent(pre_model_hook=MemoryNode(memory))`.

    Attributes:
        remaining_steps: How many supersteps are left, which that agent asks for.
    """

    remaining_steps: NotRequired[RemainingSteps]


def value_of(state: Any, key: str) -> Any:
    """Return a value of a graph's state, which may be a dict, a dataclass or a model."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def stamp_of(messages: Sequence[BaseMessage], state: MemoryState | None) -> str:
    """Return what a view depends on, in short: how many messages, the last one, the state."""
    last = digest_of(messages[-1]) if messages else ""
    ids = hash(tuple(message.id for message in messages))
    decided = state or new_state()
    summary = decided["summary"]["covers_to"] if decided["summary"] else ""
    return f"{len(messages)} {ids} {last} {summary} {hash((*decided['cuts'], *decided['blocks']))}"


def memory_input(
    state: Any,
    memory: TokenMemory,
    *,
    system: str | BaseMessage | None = None,
    tools: Sequence[Any] | None = None,
    overhead_tokens: int = 0,
    input_messages_key: str = "messages",
    output_messages_key: str = VIEW_KEY,
    state_key: str = "memory",
) -> list[BaseMessage]:
    """Return what a model node sends: the view of the memory's node, or a new one.

    A view is missing after a resume, because it is never checkpointed; it is stale where messages
    were added behind the memory's node. Then it is made anew, by the state as it stands: that
    fits in any case and calls no model.

    Args:
        state: The graph's state.
        memory: The memory of the memory's node.
        system: System text, as given to the memory's node.
        tools: Tool schemas, as given to the memory's node.
        overhead_tokens: Tokens around the conversation, as given to the memory's node.
        input_messages_key: State key of the messages.
        output_messages_key: State key of the view.
        state_key: State key of the memory's state.

    Raises:
        ConfigurationError: When there is no message at all.
        BudgetExceededError: When the fixed parts alone exceed the limit.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from langchain_tokenmem import TokenMemory
        >>> [m.content for m in memory_input({"messages": [HumanMessage("hi")]}, TokenMemory())]
        ['hi']
    """
    checked(memory, TokenMemory, "memory", "memory_input(state, memory)")
    messages = as_messages(value_of(state, input_messages_key) or [])
    held = value_of(state, state_key)
    view = value_of(state, output_messages_key)
    if view and value_of(state, STAMP_KEY) == stamp_of(messages, held):
        return list(view)
    fresh = memory.view(
        messages, held, system=system, tools=tools, overhead_tokens=overhead_tokens
    ).messages
    if not fresh:
        raise ConfigurationError(
            f"The graph's state holds no message under {input_messages_key!r}: a model cannot be "
            "called with none. Pass one in the input, or name their key by input_messages_key."
        )
    return fresh
