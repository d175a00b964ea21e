"""`TokenMemoryMiddleware`: the memory as a middleware of `langchain.agents.create_agent`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Generator
from dataclasses import replace
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
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool
from langgraph.types import Command

from langchain_tokenmem.adapters.agent_tools import (
    REQUEST_DONE,
    compact_conversation_tool,
    read_message_tool,
    record_decision_tool,
    set_goal_tool,
)
from langchain_tokenmem.adapters.agents.explained_call import ASKED, made_call
from langchain_tokenmem.adapters.agents.model_call import (
    ANOTHER_SUMMARIZER,
    KEPT_BY_PROVIDER,
    FittedRequest,
    ModelCall,
    is_kept_by_provider,
    is_overflow,
    is_summarized_by_another,
    messages_of,
    system_and_messages,
    tokens_added_behind,
    with_tools_of_mode,
    without_copies,
    writer_of,
)
from langchain_tokenmem.adapters.memory_tools import MEMORY_TOOLS, memory_tools
from langchain_tokenmem.adapters.run_context import (
    MODE_KEY,
    graph_thread,
    merge_by_name,
    mode_asked,
)
from langchain_tokenmem.adapters.run_metadata import metadata_of
from langchain_tokenmem.adapters.stored_settings import settings_of_run
from langchain_tokenmem.adapters.stream_events import (
    TokenMemoryTransformer,
    write_events,
    write_reply,
    write_view,
)
from langchain_tokenmem.adapters.trace_policy import without_payload
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.argument_checks import checked
from langchain_tokenmem.core.explanation import Explanation
from langchain_tokenmem.core.pins import PINS_CHANNEL
from langchain_tokenmem.core.planning import Steps
from langchain_tokenmem.core.profiles import output_setting
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.todos import TODOS_KEY
from langchain_tokenmem.core.view import messages_to_send
from langchain_tokenmem.errors import BudgetExceededError, ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.notes.notebook import Notebook
from langchain_tokenmem.notes_state import Pin
from langchain_tokenmem.state import MemoryState, load_state
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.tokens.schemas import format_tokens
from langchain_tokenmem.turns.conversation import Snapshot, TurnRequest, TurnResult
from langchain_tokenmem.turns.turn import Turn


class TokenMemoryAgentState(AgentState[Any]):
    """State channels that the middleware adds to an agent: private, and kept in the checkpoints.

    Attributes:
        token_memory: The state of each memory, by the middleware's name.
        token_memory_orders: Compactions that the agent asked for, by the middleware's name.
        memory_mode: Name of the mode that a tool or a node has switched the agent to.
        token_memory_pins: Pins by their ids; see `pin_update`.
    """

    # The reducer has to stand last: LangGraph looks at the last annotation only.
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
        if not name:
            raise ConfigurationError("name is empty; it is the key of the memory in the state.")
        if memory is not None:
            checked(memory, TokenMemory, "memory", "TokenMemoryMiddleware(TokenMemory(budget))")
        if store is not None:
            checked(store, TranscriptStore, "store", "TokenMemoryMiddleware(store=store)")
        self.memory = memory
        self._store = store
        self._name = name
        self._automatic = automatic
        self._limit_output = limit_output
        self._shared_threads = shared_threads
        self._lock = Lock()
        self.tools = [*chosen_tools(agent_tools, name, memory)]

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
        if ASKED in request.state:
            again = self._made_again(request)
            return again if isinstance(again, ModelResponse) else handler(again)
        work = self._call_model(self._call_of(request))
        asked = next(work)
        while not isinstance(asked, ExtendedModelResponse):
            try:
                is_call = isinstance(asked, ModelCall)
                answer = asked.run() if is_call else asked.send(handler)
            except Exception as error:  # noqa: BLE001  # the generator raises all but an overflow
                asked = work.throw(error)
            else:
                asked = work.send(answer)
        return asked

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Do the same as `wrap_model_call` without blocking the event loop."""
        if ASKED in request.state:
            again = await in_own_thread(self._made_again, request)
            return again if isinstance(again, ModelResponse) else await handler(again)
        # Counting may read a vocabulary from disk first.
        work = self._call_model(await in_own_thread(self._call_of, request))
        asked = next(work)
        while not isinstance(asked, ExtendedModelResponse):
            try:
                is_call = isinstance(asked, ModelCall)
                answer = await (asked.arun() if is_call else asked.asend(handler))
            except Exception as error:  # noqa: BLE001  # the generator raises all but an overflow
                asked = work.throw(error)
            else:
                asked = work.send(answer)
        return asked

    def explain(
        self, agent: Any, config: RunnableConfig, *, call: int | None = None, context: Any = None
    ) -> Explanation:
        """Return what the model was sent in a call that the agent has made, and why.

        It is read from the agent's checkpoints, in another process too; neither the model nor a
        tool is called, and nothing is changed. The agent has to be built as it was.

        Args:
            agent: The agent that has this middleware, with its checkpointer.
            config: The config of its thread.
            call: Number of the model's reply in the thread, from 1; default: the newest.
            context: The context of the run, for other middleware that reads it.

        Raises:
            ConfigurationError: When there is no such call, or no checkpoint right after it.
        """
        history = agent.get_state_history(config)
        made = made_call(agent, config, history, name=self._name, call=call, context=context)
        with set_config_context(made.run_config) as run:
            run.run(made.node.invoke, made.values, made.run_config)
        return made.answer()

    async def aexplain(
        self, agent: Any, config: RunnableConfig, *, call: int | None = None, context: Any = None
    ) -> Explanation:
        """Do the same as `explain` without blocking the event loop."""
        history = [snapshot async for snapshot in agent.aget_state_history(config)]
        made = made_call(agent, config, history, name=self._name, call=call, context=context)
        with set_config_context(made.run_config) as run:
            asked = made.node.ainvoke(made.values, made.run_config)
            await asyncio.create_task(asked, context=run)
        return made.answer()

    def _made_again(self, request: ModelRequest[Any]) -> ModelRequest[Any] | ModelResponse[Any]:
        """Return the request that was sent; a blank answer once this memory has explained it."""
        call, asked = self._call_of(request), cast("dict[str, Any]", request.state)[ASKED]
        state = load_state(call.thread.state)
        snapshot = Snapshot(call.turn, call.thread.messages, state, state, call.turn.options)
        view = Turn(call.thread, call.turn).view_again(snapshot)
        sent = self._fitted(call, TurnResult(state, view, changed=False))
        if asked.memory != self._name:
            return sent
        system = [sent.system_message] if sent.system_message else []
        asked.found = replace(view.explain(), messages=[*system, *sent.messages])
        return ModelResponse(result=[AIMessage("")])

    def _call_model(self, call: ModelCall) -> Generator[Any, Any, None]:
        """Yield the steps and model requests of one call, take their outcomes; the answer is last.

        A request that the provider refuses as too long is made once more, tighter.
        """
        result: TurnResult = yield call
        try:
            response = yield from self._sent(call, result)
        except Exception as error:
            tighter = call.tighter(result) if is_overflow(error) else None
            if tighter is None:
                raise
            try:
                shorter: TurnResult = yield tighter
                result = replace(shorter, changed=result.changed or shorter.changed)
                response = yield from self._sent(call, result)
            except Exception as again:
                # The first error is the one to act on; but another kind of trouble is news.
                news = not is_overflow(again) and not isinstance(again, BudgetExceededError)
                raise again if news else error from again
        response = without_copies(call, response)
        state = call.answered(result, response).thread.with_first_sights(result.state)
        result = replace(result, state=state, changed=result.changed or state != result.state)
        yield call.answered(result, response)
        yield self._answer(call, result, response)

    def _sent(self, call: ModelCall, result: TurnResult) -> Generator[Any, Any, Any]:
        """Yield the model request of a turn, and return the response."""
        request, writer = self._fitted(call, result), writer_of(call.request)
        started = time.monotonic()
        try:
            response = yield FittedRequest(request, metadata_of(result))
        except Exception as error:
            seconds = time.monotonic() - started
            write_reply(writer, self._name, duration_s=seconds, error=error)
            raise
        seconds = time.monotonic() - started
        write_reply(writer, self._name, response.result, duration_s=seconds)
        return response

    def _call_of(self, request: ModelRequest[Any]) -> ModelCall:
        """Return the turn of a model call."""
        memory = self._memory_for(request.model)
        state: Any = request.state
        thread = graph_thread(
            memory,
            None,
            name=self._name,
            messages=messages_of(request),
            state=(state.get("token_memory") or {}).get(self._name),
            label=self._name,
            shared_threads=self._shared_threads,
            pins=state.get(PINS_CHANNEL),
            settings=settings_of_run(
                memory, None, self._store, shared_threads=self._shared_threads
            ),
        ).configured()
        memory = thread.memory
        if is_summarized_by_another(request):
            memory.warn_once(f"{self._name}: {ANOTHER_SUMMARIZER}")
        counter = memory.counter_of(memory.budget)
        asked = mode_asked(None, state.get(MODE_KEY))
        request = with_tools_of_mode(request, memory.mode_of(thread.state, asked))
        options: RequestOptions = {
            "system": request.system_message or "",
            "tools": request.tools,
            "overhead_tokens": format_tokens(request.response_format, counter)
            + tokens_added_behind(request, counter.text),
            "todos": state.get(TODOS_KEY),
            "mode": asked,
            "settings": {
                **request.model_settings,
                "tool_choice": request.tool_choice,
                "response_format": request.response_format,
            },
        }
        instruction = (state.get("token_memory_orders") or {}).get(self._name) or None
        steps: Steps | None = "all" if self._automatic else None
        return ModelCall(
            request, thread, TurnRequest(options, steps=steps, instruction=instruction)
        )

    def _memory_for(self, model: BaseChatModel) -> TokenMemory:
        """Return the memory for a call of a model; where none was given, make it at the first."""
        with self._lock:
            self.memory = self.memory or TokenMemory(summarizer=model)
        return self.memory.for_model(model)

    def _fitted(self, call: ModelCall, result: TurnResult) -> ModelRequest[Any]:
        """Return the request with the view in the place of the conversation."""
        request, view, memory = call.request, result.view, call.thread.memory
        write_view(writer_of(request), view, self._name)
        if is_kept_by_provider(request.model, result):
            memory.warn_once(f"{self._name}: {KEPT_BY_PROVIDER}")
        system, messages = system_and_messages(messages_to_send(view, self._name))
        settings = request.model_settings
        if self._limit_output is not None:
            left = view.output_left
            settings = output_setting(request.model, settings, left, self._limit_output)
        return request.override(
            messages=messages,  # type: ignore[arg-type]
            system_message=system,
            model_settings=settings,
        )

    def _answer(
        self, call: ModelCall, result: TurnResult, response: ModelResponse[Any]
    ) -> ExtendedModelResponse[Any]:
        """Return the model's response, and with it what the memory decided."""
        update: dict[str, Any] = {}
        if result.changed:
            update["token_memory"] = {self._name: result.state}
        orders: Any = call.request.state.get("token_memory_orders")
        if orders is not None and orders.get(self._name) != REQUEST_DONE:
            update["token_memory_orders"] = {self._name: REQUEST_DONE}
        write_events(writer_of(call.request), call.thread.state, result, self._name)
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
        memory: Has the notes and the recall, where it is given.

    Raises:
        ConfigurationError: When there is no tool of a name.
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
            f"agent_tools is {asked!r}; it is True, False, or holds some of {', '.join(names)}."
        )
    kept = [make() for tool, make in makers.items() if tool in chosen]
    wanted: set[str] = chosen & MEMORY_TOOLS
    if wanted:
        before_store = memory.before_store if memory is not None else None
        notes = (memory and memory.notes) or Notebook(before_store=before_store)
        recall = memory.recall if memory is not None else None
        kept += memory_tools(notes, include=wanted, name=name, recall=recall)  # type: ignore[arg-type]
    return kept
