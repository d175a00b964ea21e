"""State schemas of graphs with a memory, and the view of a model node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Self

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.graph import StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict, is_typeddict

from langchain_tokenmem.adapters.agent_tools import COMPACT_REQUESTS
from langchain_tokenmem.adapters.run_context import Run, merge_by_name, state_in_run
from langchain_tokenmem.core.argument_checks import as_messages, checked, described
from langchain_tokenmem.core.messages import digest_of
from langchain_tokenmem.core.pins import PINS_CHANNEL, with_pins
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.todos import TODOS_KEY
from langchain_tokenmem.core.view import messages_to_send
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, Pin, load_state, new_state

VIEW_KEY = "llm_input_messages"
STAMP_KEY = "llm_input_stamp"

DEFAULT_NAME = "memory"
"""Name of a graph's memory if the application gives none."""


@dataclass(frozen=True)
class StateKeys:
    """Keys of a graph's state that a memory uses.

    Attributes:
        messages: The conversation.
        view: The view for the next model call.
        stamp: What the view was made from.
        state: The memory's own state.
        mode: Name of the mode that the session was switched to.
    """

    messages: str
    view: str
    stamp: str
    state: str
    mode: str

    @classmethod
    def of(cls, name: str, messages: str, view: str | None, state: str | None) -> Self:
        """Return the keys of a memory, derived from its name if none are given.

        Raises:
            ConfigurationError: When the name is invalid, or the view would replace the
                conversation.
        """
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"name is {name!r}; it must be a string.")
        prefix = "" if name == DEFAULT_NAME else f"{name}_"
        keys = cls(
            messages,
            view or f"{prefix}{VIEW_KEY}",
            f"{prefix}{STAMP_KEY}",
            state or name,
            f"{name}_mode",
        )
        if keys.view == messages:
            raise ConfigurationError(
                f"output_messages_key is {messages!r}, the key of the conversation itself: a view "
                "must not take its place. Name another key."
            )
        if keys.state in {keys.messages, keys.view, keys.stamp, COMPACT_REQUESTS, PINS_CHANNEL}:
            raise ConfigurationError(
                f"The state of a memory cannot be stored under {keys.state!r}, which has something "
                'else. Give the memory another name, name="planner", or state_key=.'
            )
        return keys

    @property
    def private(self) -> set[str]:
        """The keys that are the memory's own."""
        return {self.view, self.stamp, self.state, COMPACT_REQUESTS, PINS_CHANNEL}

    def _kept_channels(self) -> dict[str, Any]:
        """Return the channels that are kept in the checkpoints."""
        return {
            self.messages: list[AnyMessage],
            self.state: MemoryState,
            self.mode: str,
            COMPACT_REQUESTS: Annotated[dict[str, str], merge_by_name],
            PINS_CHANNEL: Annotated[dict[str, Pin | None], merge_by_name],
        }

    def input_schema(self) -> type[Any]:
        """Return the schema by which LangGraph gives a node of the memory its channels."""
        return schema_of(self._kept_channels())

    def graph_schema(self, builder: StateGraph[Any, Any, Any, Any]) -> type[Any]:
        """Return the schema of the memory's nodes in a graph, whose own channels stay as they are.

        Besides the memory's state it adds the channels of one run, unless the graph's state is a
        dataclass or a model: LangGraph's `version="v2"` streams refuse keys that it does not have.
        """
        channels: dict[str, Any] = {self.messages: list[AnyMessage], self.state: MemoryState}
        if is_typeddict(builder.state_schema):
            channels = {
                **self._kept_channels(),
                self.view: Annotated[list[AnyMessage], UntrackedValue],
                # Two memories may write in one step; whoever finds another stamp rebuilds its view.
                self.stamp: Annotated[str, UntrackedValue(str, guard=False)],
            }
        own = {COMPACT_REQUESTS, PINS_CHANNEL, TODOS_KEY, *channels} & builder.channels.keys()
        return schema_of({**channels, **dict.fromkeys(own, Any)})


def schema_of(channels: dict[str, Any], name: str = "MemoryNodeState") -> type[Any]:
    """Return the schema of a graph's state, or of a part of it."""
    return TypedDict(name, channels)  # type: ignore[operator, no-any-return]


class StateUpdate(dict[str, Any]):
    """A state update that keeps LangGraph from streaming the view as new messages.

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


class MemoryMessagesState(TypedDict):
    """LangGraph's `MessagesState` with the mode of the session.

    The memory's nodes add the channels that they need. These are private: they are in the
    checkpoints, but not in the graph's input and output.

    Attributes:
        messages: The conversation; nothing is removed from it by default.
        memory_mode: Mode that the session is switched to, empty for none; an input or an update
            of any node switches it.

    Example:
        >>> from langgraph.graph import StateGraph
        >>> sorted(StateGraph(MemoryMessagesState).channels)
        ['memory_mode', 'messages']
    """

    messages: Annotated[list[AnyMessage], add_messages]
    memory_mode: NotRequired[str]


class MemoryAgentState(MemoryMessagesState):
    """State of `create_react_agent(pre_model_hook=MemoryNode(memory))`.

    Attributes:
        llm_input_messages: The view for the next model call, of this run only.
        llm_input_stamp: What the view was made from.
        remaining_steps: How many supersteps are left; that agent needs it.
    """

    llm_input_messages: NotRequired[Annotated[list[AnyMessage], UntrackedValue]]
    llm_input_stamp: NotRequired[Annotated[str, UntrackedValue(str, guard=False)]]
    remaining_steps: NotRequired[RemainingSteps]


def value_of(state: Any, key: str) -> Any:
    """Return a value of a graph's state, which may be a dict, a dataclass or a model."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def kept_state(value: Any, key: str) -> Any:
    """Return the memory's state from its channel.

    Raises:
        ConfigurationError: When the channel belongs to the application.
    """
    if value is None or isinstance(value, Mapping):
        return value
    raise ConfigurationError(
        f"The graph's state holds {described(value)} under {key!r}, where the memory keeps its own "
        f'state. Give the memory another name: memory_nodes(builder, memory, name="planner"), and '
        f"memory_input likewise."
    )


def channel_of(state: Any, key: str) -> Any:
    """Return a value of a graph's state, even if the node's input does not have its channel."""
    value = value_of(state, key)
    return state_in_run(key) if value is None else value


def stamp_of(messages: Sequence[BaseMessage], state: MemoryState | None) -> str:
    """Return a short form of what a view depends on: number of messages, the last one, the state.

    Args:
        messages: The conversation.
        state: The memory's state, with the pins of the graph's channel.
    """
    last = digest_of(messages[-1]) if messages else ""
    ids = hash(tuple(message.id for message in messages))
    decided = state or new_state()
    summary = decided["summary"]["covers_to"] if decided["summary"] else ""
    pins = (pin["id"] for pin in decided.get("pins", ()))
    rest = hash((*decided["cuts"], *decided["blocks"], *pins))
    return f"{len(messages)} {ids} {last} {summary} {rest}"


def _is_of_the_run(messages: Sequence[BaseMessage], key: str) -> bool:
    """Return whether messages belong to the running graph's conversation; a `Send`'s own do not.

    Copies without ids belong to it, and all messages do if the run's are unknown.
    """
    held = state_in_run(key)
    if not held or not messages:
        return True
    ids, texts = {message.id for message in held}, {message.text for message in held}
    return any(m.id in ids if m.id else m.text in texts for m in reversed(messages))


def memory_input(
    state: Any,
    memory: TokenMemory,
    *,
    name: str = DEFAULT_NAME,
    model: Any = None,
    system: str | BaseMessage | None = None,
    tools: Sequence[Any] | None = None,
    overhead_tokens: int = 0,
    input_messages_key: str = "messages",
    output_messages_key: str | None = None,
    state_key: str | None = None,
) -> list[BaseMessage]:
    """Return what a model node sends: the view of the memory's node, or a new one.

    A view is missing after a resume, because it is never checkpointed; it is stale if messages or
    pins were added after the memory's node. Then a new one is created from the state, without a
    model call. The state needs `messages` only: the memory's other channels are read from the
    running graph, unless none of the messages is in its conversation.

    Args:
        state: The graph's state.
        memory: The memory of the memory's node.
        name: Name of the memory, as given to the memory's node.
        model: The chat model that is called, as given to the memory's node.
        system: System text, as given to the memory's node.
        tools: Tool schemas, as given to the memory's node.
        overhead_tokens: Tokens around the conversation, as given to the memory's node.
        input_messages_key: State key of the messages.
        output_messages_key: State key of the view; default: derived from the name.
        state_key: State key of the memory's state; default: the name.

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
    keys = StateKeys.of(name, input_messages_key, output_messages_key, state_key)
    messages = as_messages(value_of(state, keys.messages) or [])
    held = kept_state(channel_of(state, keys.state), keys.state)
    pins = channel_of(state, PINS_CHANNEL)
    held = with_pins(load_state(held), pins) if pins else held
    view = channel_of(state, keys.view)
    if view and channel_of(state, keys.stamp) == stamp_of(messages, held):
        return list(view)
    if not _is_of_the_run(messages, keys.messages):
        held = kept_state(value_of(state, keys.state), keys.state)
    called, run = memory if model is None else memory.for_model(model), Run.of()
    options: RequestOptions = {
        "system": system,
        "tools": tools,
        "overhead_tokens": overhead_tokens,
        "todos": value_of(state, TODOS_KEY),
        "mode": run.mode(channel_of(state, keys.mode)),
    }
    where = f"memory_input, which reads the state's {keys.messages!r} (input_messages_key)"
    made = called.view(messages, held, **options)
    for warning in made.warnings:
        called.warn_once(f"{f'Thread {run.thread!r}' if run.thread else name}: {warning}")
    return messages_to_send(made, where)
