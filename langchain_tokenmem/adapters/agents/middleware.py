"""`TokenMemoryMiddleware`: the memory as a middleware of `langchain.agents.create_agent`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Annotated, Any, Literal, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse
from langchain.agents.middleware.types import (
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool
from langgraph.types import Command

from langchain_tokenmem.adapters.agent_tools import (
    COMPACT_REQUESTS,
    REQUEST_DONE,
    compact_conversation_tool,
    read_message_tool,
    record_decision_tool,
    set_goal_tool,
)
from langchain_tokenmem.adapters.agents.model_call import (
    ANOTHER_SUMMARIZER,
    KEPT_BY_PROVIDER,
    STATE_ADDED_LATER,
    ModelCall,
    conversation_in,
    is_summarized_by_another,
    tokens_of_later_text,
    with_added,
)
from langchain_tokenmem.adapters.memory_tools import MEMORY_TOOLS, memory_tools
from langchain_tokenmem.adapters.past_calls import ASKED, PastModelCall, check_thread
from langchain_tokenmem.adapters.run_context import MODE_KEY, Run, graph_thread, merge_by_name
from langchain_tokenmem.adapters.stream_events import (
    TokenMemoryTransformer,
    metadata_of,
    runs_with,
    without_payload,
    write_changes,
    write_reply,
    write_view,
)
from langchain_tokenmem.background import at_once, completed, in_own_thread
from langchain_tokenmem.core.argument_checks import checked, checked_output_limit
from langchain_tokenmem.core.covered import without_original
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.pins import PINS_CHANNEL
from langchain_tokenmem.core.profiles import output_setting
from langchain_tokenmem.core.provider_format import fit_list
from langchain_tokenmem.core.request_options import RequestOptions, Steps
from langchain_tokenmem.core.todos import TODOS_KEY
from langchain_tokenmem.core.tool_calls import offers_tool
from langchain_tokenmem.core.view import messages_to_send
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.state import MemoryState, Pin
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.tokens.tool_schemas import format_tokens
from langchain_tokenmem.turns.conversation import Snapshot, TurnRequest, TurnResult
from langchain_tokenmem.turns.overflow import is_overflow, raising_first
from langchain_tokenmem.turns.turn import (
    Turn,
    after_reply,
    atake_turn,
    take_turn,
)


class TokenMemoryAgentState(AgentState[Any]):
    """State channels that the middleware adds to an agent: private, and kept in the checkpoints.

    Attributes:
        token_memory: The state of each memory, by the middleware's name.
        token_memory_orders: Compactions that the agent asked for, by the middleware's name.
        memory_mode: Name of the mode that a tool or a node has switched the agent to.
        token_memory_pins: Pins by their ids; see `pin_update`.
    """

    # The reducer must be last: LangGraph looks only at the last annotation.
    token_memory: NotRequired[Annotated[dict[str, MemoryState], PrivateStateAttr, merge_by_name]]
    token_memory_orders: NotRequired[Annotated[dict[str, str], PrivateStateAttr, merge_by_name]]
    memory_mode: NotRequired[Annotated[str, PrivateStateAttr]]
    token_memory_pins: NotRequired[
        Annotated[dict[str, Pin | None], PrivateStateAttr, merge_by_name]
    ]


class TokenMemoryMiddleware(AgentMiddleware[TokenMemoryAgentState, Any, Any]):
    """Keeps each request of an agent within the model's window.

    The model sees a view; `messages` in the agent's state stay as they are. The memory's state is
    private and kept in the checkpoints, so it follows forks and time travel, and each sub-agent has
    its own. One instance can serve several agents. No superstep is added.

    Put it last in the list, so that it sees the system text and tools that other middleware adds.

    Args:
        memory: Decides what is shown; default: a `TokenMemory()` whose summaries the agent's model
            writes.
        name: Name of the middleware, different for each one in an agent. Use
            "SummarizationMiddleware" in `create_deep_agent` to replace its summarizer.
        automatic: Compact when it is due. Otherwise only `compact_conversation` does, and what
            does not fit is left out with a marker.
        agent_tools: True gives the agent `compact_conversation` and `read_message`, and with a mode
            `record_decision` and `set_goal`. A set of names chooses among these and
            `memory_tools`.
        limit_output: Set the model's maximum of output tokens to what the request leaves: True
            chooses the setting by the provider, a string names it.
        shared_threads: Threads are shared by several users: they have no owner, and recall
            searches the thread only.
        store: Store with settings of threads and users (`set_settings`). Default: that of the
            agent's `TokenMemorySaver`, else that of the memory's recall.

    Raises:
        ScopeError: When the thread belongs to another user.
        BudgetExceededError: When system text and tools alone exceed the limit.

    Example:
        >>> from langchain.agents import create_agent
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_tokenmem import TokenBudget, TokenMemory
        >>> model = FakeListChatModel(responses=["hello"])
        >>> memory = TokenMemory(TokenBudget(context_window=8_000))
        >>> agent = create_agent(model, middleware=[TokenMemoryMiddleware(memory)])
        >>> agent.invoke({"messages": "hi"})["messages"][-1].content
        'hello'
    """

    state_schema = TokenMemoryAgentState
    transformers = (TokenMemoryTransformer,)
    trace_policy = without_payload()

    def __init__(
        self,
        memory: TokenMemory | None = None,
        *,
        name: str = "TokenMemoryMiddleware",
        automatic: bool = True,
        agent_tools: AgentTools = False,
        limit_output: str | Literal[True] | None = None,
        shared_threads: bool = False,
        store: TranscriptStore | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"name is {name!r}; it is the key of the memory in the state.")
        if memory is not None:
            checked(memory, TokenMemory, "memory", "TokenMemoryMiddleware(TokenMemory(budget))")
        if store is not None:
            checked(store, TranscriptStore, "store", "TokenMemoryMiddleware(store=store)")
        self.memory = memory
        self._store = store
        self._name = name
        self._automatic = automatic
        self._limit_output = checked_output_limit(limit_output)
        self._shared_threads = shared_threads
        self._lock = Lock()
        self._called: tuple[BaseChatModel, TokenMemory] | None = None
        self.tools = [*chosen_tools(agent_tools, name, memory)]

    def __repr__(self) -> str:
        return f"TokenMemoryMiddleware({self.memory!r}, name={self._name!r})"

    @property
    def name(self) -> str:
        """The key of this memory in the agent's state."""
        return self._name

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelCallResult[Any]:
        """Call the model with the view of the conversation."""
        send, take = partial(at_once, handler), partial(at_once, take_turn)
        return completed(self._call_model(request, send, take, at_once))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Do the same as `wrap_model_call` without blocking the event loop."""
        return await self._call_model(request, handler, atake_turn, in_own_thread)

    def explain(
        self, agent: Any, config: RunnableConfig, *, call: int | None = None, context: Any = None
    ) -> Explanation:
        """Return what the model was sent in a past call of the agent, and why.

        It is read from the agent's checkpoints, even in another process; neither the model nor a
        tool is called, and nothing is changed. The agent must be built as it was then.

        Args:
            agent: The agent that has this middleware, with its checkpointer.
            config: The config of its thread.
            call: Number of the model's reply in the thread, from 1; default: the newest.
            context: The context of the run, for other middleware that reads it.

        Raises:
            ConfigurationError: When there is no such call, no checkpoint right after it, no
                checkpointer, or no thread in the config.
        """
        check_thread(agent, config)
        history = agent.get_state_history(config)
        past = PastModelCall(agent, config, history, name=self._name, call=call, context=context)
        with set_config_context(past.config) as run:
            run.run(past.node.invoke, past.values, past.config)
        return past.explanation()

    async def aexplain(
        self, agent: Any, config: RunnableConfig, *, call: int | None = None, context: Any = None
    ) -> Explanation:
        """Do the same as `explain` without blocking the event loop."""
        check_thread(agent, config)
        history = [snapshot async for snapshot in agent.aget_state_history(config)]
        past = PastModelCall(agent, config, history, name=self._name, call=call, context=context)
        with set_config_context(past.config) as run:
            await asyncio.create_task(past.node.ainvoke(past.values, past.config), context=run)
        return past.explanation()

    def _made_again(self, request: ModelRequest[Any]) -> ModelRequest[Any] | ModelResponse[Any]:
        """Return the request that was sent; a blank answer once this memory has explained it."""
        call, asked = self._call_of(request), cast("dict[str, Any]", request.state)[ASKED]
        state = call.thread.state
        snapshot = Snapshot(call.turn, call.thread.messages, state, state, call.turn.options)
        view = Turn(call.thread, call.turn).view_again(snapshot)
        sent = self._fitted(call, TurnResult(state, view, changed=False))
        if asked.name != self._name:
            return sent
        system = [sent.system_message] if sent.system_message else []
        asked.found = replace(view.explain(), messages=[*system, *sent.messages])
        return ModelResponse(result=[AIMessage("")])

    async def _call_model(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
        take: Callable[..., Awaitable[TurnResult]],
        run: Callable[..., Awaitable[Any]],
    ) -> ModelCallResult[Any]:
        """Call the model; a request that the provider refuses as too long is sent again, smaller.

        Args:
            request: The agent's request.
            handler: Calls the model.
            take: Takes a turn.
            run: Runs a function that may block for a while.
        """
        if ASKED in request.state:
            again = await run(self._made_again, request)
            # Another memory is asked if this one has not answered.
            return again if isinstance(again, ModelResponse) else await handler(again)
        # Counting may read a vocabulary from disk first.
        call: ModelCall = await run(self._call_of, request)
        result = await take(call.thread, call.turn)
        try:
            response = await self._sent(call, result, handler)
        except Exception as error:
            tighter = call.tighter(result) if is_overflow(error) else None
            if tighter is None:
                raise
            with raising_first(error):
                shorter = await take(tighter.thread, tighter.turn)
                result = replace(shorter, changed=result.changed or shorter.changed)
                response = await self._sent(call, result, handler)
        thread, memory = call.thread, call.thread.memory
        messages = memory.without_copies(response.result)
        if memory.background or memory.engine.rules.show_times:
            thread = replace(thread, messages=[*thread.messages, *messages], state=result.state)
            state = thread.with_first_sights(result.state)
            result = replace(result, state=state, changed=result.changed or state != result.state)
            # The next call: the agent's tools run, or the user reads the reply.
            following = replace(call.turn, instruction=None)
            await run(after_reply, replace(thread, state=state), following)
        return self._answer(call, result, replace(response, result=messages))

    async def _sent(
        self,
        call: ModelCall,
        result: TurnResult,
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Send the request of a turn, and return the response."""
        request = self._fitted(call, result)
        started = time.monotonic()
        try:
            with runs_with(metadata_of(result)):
                response = await handler(request)
        except Exception as error:
            seconds = time.monotonic() - started
            write_reply(self._name, duration_s=seconds, error=error)
            raise
        seconds = time.monotonic() - started
        write_reply(self._name, response.result, duration_s=seconds)
        return response

    def _call_of(self, request: ModelRequest[Any]) -> ModelCall:
        """Return the turn of a model call."""
        state: Any = request.state
        run = Run.of(shared_threads=self._shared_threads)
        memory = self._memory_for(request.model)
        messages, added, overhead = conversation_in(request, memory)
        thread = graph_thread(
            memory,
            run,
            name=self._name,
            messages=messages,
            state=(state.get("token_memory") or {}).get(self._name),
            label=self._name,
            store=self._store,
            pins=state.get(PINS_CHANNEL),
            held=state.get("messages"),
        )
        memory = thread.memory
        if is_summarized_by_another(request):
            memory.warn_once(f"{self._name}: {ANOTHER_SUMMARIZER}")
        asked = run.mode(state.get(MODE_KEY))
        mode = memory.engine.annotations.mode_of(thread.state.get("modes"), asked)
        if mode is not None and mode.tools:
            names = mode.tools
            offered = [t for t in request.tools if any(offers_tool([t], name) for name in names)]
            request = request.override(tools=offered)
        is_longer = not STATE_ADDED_LATER.isdisjoint(state)
        if request.response_format is not None or is_longer:
            counter = memory.engine.counter_of(memory.budget)
            overhead += format_tokens(request.response_format, counter)
            overhead += tokens_of_later_text(request, counter.text)
        options: RequestOptions = {
            "system": request.system_message or "",
            "tools": request.tools,
            "overhead_tokens": overhead,
            "overhead_messages": sum(map(len, (added or {}).values())),
            "todos": state.get(TODOS_KEY),
            "mode": asked,
            "settings": {
                **request.model_settings,
                "tool_choice": request.tool_choice,
                "response_format": request.response_format,
            },
        }
        instruction = (state.get(COMPACT_REQUESTS) or {}).get(self._name) or None
        steps: Steps | None = "all" if self._automatic else None
        turn = TurnRequest(options, steps=steps, instruction=instruction)
        return ModelCall(request, thread, turn, added)

    def _memory_for(self, model: BaseChatModel) -> TokenMemory:
        """Return the memory for calls of a model; rebuilt only when the model changes.

        If no memory was given, it is made for the first model.
        """
        with self._lock:
            if self._called is None or self._called[0] is not model:
                self.memory = self.memory or TokenMemory(summarizer=model)
                self._called = model, self.memory.for_model(model)
            return self._called[1]

    def _fitted(self, call: ModelCall, result: TurnResult) -> ModelRequest[Any]:
        """Return the request with the view in place of the conversation."""
        request, view, memory = call.request, result.view, call.thread.memory
        write_view(self._name, view)
        is_decided = result.state["summary"] or result.state["cuts"]
        called = memory.engine.called
        if is_decided and called is not None and called.has_own_copy:
            memory.warn_once(f"{self._name}: {KEPT_BY_PROVIDER}")
        messages: list[Any] = [*messages_to_send(view, self._name)]
        system = messages.pop(0) if isinstance(messages[0], SystemMessage) else None
        if call.added is not None:
            messages = with_added(map(without_original, messages), call.thread.messages, call.added)
            messages = fit_list(messages, memory.engine.profile_of(memory.budget))
        settings = request.model_settings
        if self._limit_output is not None:
            left = view.output_left
            settings = output_setting(request.model, settings, left, self._limit_output)
        return request.override(messages=messages, system_message=system, model_settings=settings)

    def _answer(
        self, call: ModelCall, result: TurnResult, response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        """Return the model's response, together with what the memory decided."""
        update: dict[str, Any] = {}
        if result.changed:
            call.thread.delivered(result.state)
            update["token_memory"] = {self._name: result.state}
            write_changes(self._name, call.thread.state, result.state)
        orders: Any = call.request.state.get(COMPACT_REQUESTS)
        if orders is not None and orders.get(self._name) != REQUEST_DONE:
            update[COMPACT_REQUESTS] = {self._name: REQUEST_DONE}
        command: Command[Any] | None = Command(update=update) if update else None
        return ExtendedModelResponse(model_response=response, command=command)


AgentTools = bool | Collection[str]

_OF_A_MODE = frozenset({"record_decision", "set_goal"})


def chosen_tools(asked: AgentTools, name: str, memory: TokenMemory | None) -> list[BaseTool]:
    """Return the tools that an agent gets.

    Args:
        asked: Names of the tools. True for the tools that work on the agent's own messages and, if
            the memory has a mode, on its working notes; False for none.
        name: Name of the middleware.
        memory: Has the notes and the recall, if it is given.

    Raises:
        ConfigurationError: When a name is not that of a tool.
    """
    makers: dict[str, Callable[[], BaseTool]] = {
        "compact_conversation": lambda: compact_conversation_tool(name),
        "read_message": lambda: read_message_tool(name=name),
        "record_decision": record_decision_tool,
        "set_goal": set_goal_tool,
    }
    names = [*makers, *sorted(MEMORY_TOOLS)]
    has_mode = memory is not None and memory.engine.annotations.mode is not None
    usual = {*makers} if has_mode else {*makers} - _OF_A_MODE
    chosen = {*asked} if not isinstance(asked, bool) else usual if asked else set()
    if isinstance(asked, str) or chosen - {*names}:
        raise ConfigurationError(
            f"agent_tools is {asked!r}; it must be True, False, or some of {', '.join(names)}."
        )
    kept = [make() for tool, make in makers.items() if tool in chosen]
    wanted: set[str] = chosen & MEMORY_TOOLS
    if wanted:
        before_store = memory.before_store if memory is not None else None
        notes = (memory and memory.notes) or Notebook(before_store=before_store)
        recall = memory.recall if memory is not None else None
        kept += memory_tools(notes, include=wanted, name=name, recall=recall)  # type: ignore[arg-type]
    return kept
