"""`with_token_memory`: a runnable around a chain that budgets the whole request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import (
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableGenerator,
    RunnableLambda,
    RunnableSequence,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.utils import ConfigurableFieldSpec
from pydantic import RootModel, create_model

from langchain_tokenmem.adapters.chains.parts import (
    bound_kwarg,
    bound_model,
    has_prompt,
    is_configurable,
    replace_model,
    replace_prompts,
)
from langchain_tokenmem.adapters.chains.prompt import (
    ChainCall,
    FittedPrompt,
    MessageKeys,
    ModelErrors,
    add_chunks,
    ensure_id,
    to_messages,
)
from langchain_tokenmem.adapters.chains.session_fields import SessionFields, SessionOf
from langchain_tokenmem.adapters.stream_events import metadata_of
from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.argument_checks import (
    as_budget,
    checked,
    checked_choice,
    checked_output_limit,
    checked_overhead,
)
from langchain_tokenmem.core.message_times import stamped
from langchain_tokenmem.core.messages import marked
from langchain_tokenmem.core.profiles import output_setting
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View, messages_to_send
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.tokens.tool_schemas import format_tokens
from langchain_tokenmem.turns.conversation import TurnRequest, TurnResult
from langchain_tokenmem.turns.overflow import raising_first
from langchain_tokenmem.turns.stored_session import StoredSession
from langchain_tokenmem.turns.turn import aafter_reply, after_reply, atake_turn, take_turn

OnAbort = Literal["keep", "drop"]


def with_token_memory(
    runnable: Runnable[Any, Any],
    memory: TokenMemory | None = None,
    store: TranscriptStore | None = None,
    *,
    input_messages_key: str | None = None,
    history_messages_key: str | None = None,
    output_messages_key: str | None = None,
    overhead_tokens: int = 0,
    limit_output: str | Literal[True] | None = None,
    on_abort: OnAbort = "drop",
    history_factory_config: Sequence[ConfigurableFieldSpec] | None = None,
    session_of: SessionOf | None = None,
) -> Runnable[Any, Any]:
    """Give a chain a memory that keeps each request within the model's window.

    If the chain has a prompt, the budget is applied to its result: system text, examples, history,
    the new input and the tools bound to the model are one request. Otherwise history and input are
    counted, and `overhead_tokens` reserves the rest. A history that a step before the prompt masks
    or trims is sent like that. A request that the chain's last model refuses as too long is made
    smaller, and the chain runs once more.

    Each call names its session in `config["configurable"]`: `session_id` (required), `user_id`,
    `token_budget` (a `TokenBudget` for this call, a window or a dict of fields), and `memory_mode`
    (the mode from this call on). The model of the chain determines the counter, and the window if
    it is smaller. Input and output are stored together when the call has succeeded.

    Args:
        runnable: The chain; takes a dict, or messages.
        memory: Decides what is shown; default: a `TokenMemory()`.
        store: Keeps the transcript; default: `TranscriptStore()`, a SQLite file.
        input_messages_key: Key of the new input in a dict input.
        history_messages_key: Key under which the chain expects the history; without one the
            history is put before the input messages.
        output_messages_key: Key of the answer in a dict output; needed if the output holds the
            input or the history, too.
        overhead_tokens: Tokens of the request that are in neither prompt nor input.
        limit_output: Set the model's maximum of output tokens to what the request leaves: True
            chooses the setting by the provider, a string names it.
        on_abort: What happens to a stream that the caller stops or that fails: "drop" stores
            nothing of it, "keep" stores the input and the text so far, which then ends with
            "[interrupted]". Its tool calls and reasoning are never stored.
        history_factory_config: Fields of `configurable` that name the session, for an application
            with other names than `session_id` and `user_id`, as `RunnableWithMessageHistory` takes
            them.
        session_of: Called with the values of these fields as keywords; returns the session's id, or
            a pair of it and the user's id. Without it `user_id` is the user, and the other field
            the session.

    Returns:
        A runnable with `invoke`, `batch`, `stream` and their async twins.

    Raises:
        ConfigurationError: When an argument has a wrong type, or `limit_output` finds no chat
            model in the chain.
        ScopeError: When a call does not name its session.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_tokenmem import TranscriptStore
        >>> chain = with_token_memory(
        ...     FakeListChatModel(responses=["hello"]), store=TranscriptStore("sqlite://")
        ... )
        >>> chain.invoke("hi", {"configurable": {"session_id": "s1"}}).content
        'hello'
    """
    line = "with_token_memory(prompt | model, TokenMemory(), TranscriptStore())"
    checked(runnable, Runnable, "runnable", line)  # type: ignore[type-abstract]
    memory = TokenMemory() if memory is None else checked(memory, TokenMemory, "memory", line)
    store = TranscriptStore() if store is None else checked(store, TranscriptStore, "store", line)
    at_hand = memory_for(runnable, memory)
    counter = at_hand.engine.counter_of(at_hand.budget)
    response_format = bound_kwarg(runnable, "response_format")
    options: RequestOptions = {
        "tools": bound_kwarg(runnable, "tools"),
        "overhead_tokens": checked_overhead(overhead_tokens)
        + format_tokens(response_format, counter),
    }
    limit_output = checked_output_limit(limit_output)
    if limit_output is not None and replace_model(runnable, lambda _: RunnableLambda(str)) is None:
        raise ConfigurationError(
            "limit_output= sets the maximum of output tokens of the chat model in the chain, and "
            "none is found: with_token_memory(prompt | model, limit_output=True)."
        )
    keys = MessageKeys(input_messages_key, history_messages_key, output_messages_key)
    turns = _ChainTurns(
        runnable,
        memory,
        store,
        keys,
        options,
        limit_output,
        checked_choice(on_abort, OnAbort, "on_abort"),
        SessionFields.of(history_factory_config, session_of),
    )
    steps = RunnableLambda(turns.begin, afunc=turns.abegin, name="with_token_memory")
    specs = turns.fields.specs
    return TokenMemoryRunnable(bound=steps, chain=runnable, keys=keys, session_specs=specs)


def memory_for(
    runnable: Runnable[Any, Any], memory: TokenMemory, config: RunnableConfig | None = None
) -> TokenMemory:
    """Return the memory for calls of the model in a chain; the given one if it has none."""
    model = bound_model(runnable, config)
    return memory if model is None else memory.for_model(model)


class TokenMemoryRunnable(RunnableBindingBase[Any, Any]):
    """A chain with a memory, as `with_token_memory` returns it.

    Attributes:
        chain: The chain without its memory.
        keys: Keys of the messages in inputs and outputs.
        session_specs: Fields of `configurable` that name the session.
    """

    chain: Runnable[Any, Any]
    keys: Any
    session_specs: list[ConfigurableFieldSpec]

    @property
    def OutputType(self) -> Any:  # noqa: N802  # LangChain's name
        """The chain's."""
        return self.chain.OutputType

    def get_output_schema(self, config: RunnableConfig | None = None) -> Any:
        """Return the chain's schema."""
        return self.chain.get_output_schema(config)

    def get_input_schema(self, config: RunnableConfig | None = None) -> Any:
        """Return the chain's schema without the history."""
        message_types: Any = str | BaseMessage | Sequence[BaseMessage]
        if self.keys.input is None:
            return RootModel[message_types]
        schema: Any = self.chain.get_input_schema(config)
        ours = {self.keys.input, self.keys.history, "root"}
        fields: dict[str, Any] = {
            name: (field.annotation, field)
            for name, field in schema.model_fields.items()
            if name not in ours
        }
        return create_model("ChainInput", **{**fields, self.keys.input: (message_types, ...)})

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """Fields that a call may name under `configurable`."""
        return [*self.chain.config_specs, *self.session_specs]


@dataclass(frozen=True)
class _ChainTurns:
    """The turns of a chain: each call gets its own chain, with its history in it.

    Attributes:
        chain: The chain without its memory.
        memory: Decides what is shown.
        store: Keeps the transcript.
        keys: Keys of the messages in inputs and outputs.
        options: Tools and overhead of every call.
        limit_output: Name of the model's setting, or True to choose it by the provider; None to
            leave it.
        on_abort: What happens to a stream that does not end.
        fields: Where a call names its session.
    """

    chain: Runnable[Any, Any]
    memory: TokenMemory
    store: TranscriptStore
    keys: MessageKeys
    options: RequestOptions
    limit_output: str | Literal[True] | None
    on_abort: OnAbort
    fields: SessionFields

    def begin(self, value: Any, config: RunnableConfig, **kwargs: Any) -> Runnable[Any, Any]:
        """Return the chain of one call; LangChain invokes or streams it."""
        return self.taken(value, self._call_of(value, config), kwargs)

    async def abegin(self, value: Any, config: RunnableConfig, **kwargs: Any) -> Runnable[Any, Any]:
        """Do the same as `begin` without blocking the event loop."""
        return await self.ataken(value, self._call_of(value, config), kwargs)

    def taken(self, value: Any, call: ChainCall, kwargs: dict[str, Any]) -> Runnable[Any, Any]:
        """Take the turn of a call, and return its chain."""
        return self._with_view(value, call, take_turn(call.session, call.request), kwargs)

    async def ataken(
        self, value: Any, call: ChainCall, kwargs: dict[str, Any]
    ) -> Runnable[Any, Any]:
        """Do the same as `taken` without blocking the event loop."""
        return self._with_view(value, call, await atake_turn(call.session, call.request), kwargs)

    def _call_of(self, value: Any, config: RunnableConfig) -> ChainCall:
        configurable = config.get("configurable") or {}
        session_id, user_id = self.fields.session_in(configurable)
        memory = memory_for(self.chain, self.memory, config)
        session = StoredSession(memory, self.store, session_id, user_id)
        given, where = value, ""
        if isinstance(value, dict):
            key = self.keys.of_input(value)
            given = value.get(key)
            where = f" under {key!r}; its keys are {', '.join(map(repr, value)) or 'none'}"
        now = memory.engine.now()
        messages = [stamped(ensure_id(m), now) for m in to_messages(given, HumanMessage)]
        if not messages:
            raise ConfigurationError(
                f"Session {session_id!r}: the input has no message{where}. Pass a text, a message "
                f"or a list of messages, or name its key with input_messages_key."
            )
        budget = as_budget(configurable.get("token_budget"), "token_budget")
        mode = configurable.get("memory_mode")
        options: RequestOptions = {**self.options, "budget": budget, "mode": mode}
        request = TurnRequest(options, messages, is_sent=not has_prompt(self.chain))
        return ChainCall(session, messages, request)

    def _with_view(
        self, value: Any, call: ChainCall, result: TurnResult, kwargs: dict[str, Any]
    ) -> Runnable[Any, Any]:
        """Return the chain with prompts that fit, between its input and the store."""
        given, handed = self._input(value, call, result.view)
        call = replace(call, handed=handed)
        place = self.keys.history or (self.keys.of_input(value) if isinstance(value, dict) else "")

        def fitted(prompt: BasePromptTemplate[Any]) -> Runnable[Any, Any]:
            return FittedPrompt(prompt, call, place, is_history=bool(self.keys.history))

        def described(_config: RunnableConfig) -> RunnableConfig:
            refusals = ModelErrors(call.errors)
            return {"metadata": metadata_of(call.results[-1]), "callbacks": [refusals]}

        def called(model: Any) -> Runnable[Any, Any]:
            if self.limit_output is not None:
                model = limited_model(model, results=call.results, name=self.limit_output)
            return RunnableBinding(bound=model, config_factories=[described])

        chain = replace_prompts(self.chain, fitted)
        call.results.append(result)
        chain = replace_model(chain, called) or chain
        keys = self.keys
        if isinstance(value, dict):
            keys = replace(keys, input=keys.of_input(value))
        answer = _AnswerStore(call, keys)
        whole: Runnable[Any, Any] = RunnableSequence(
            RunnableLambda(lambda _value: given, name="history"),
            chain.bind(**kwargs) if kwargs else chain,
            RunnableGenerator(answer.transform, answer.atransform, name="store"),
        )
        return _CallChain(
            bound=whole, turns=self, value=value, call=call, given=kwargs, answer=answer
        )

    def _input(self, value: Any, call: ChainCall, view: View) -> tuple[Any, list[BaseMessage]]:
        """Return the chain's input with the view in its place, and the messages put there."""
        messages = [*map(ensure_id, view.messages)]
        if not isinstance(value, dict):
            messages_to_send(view, f"Session {call.session.session_id!r}")
            return messages, messages
        if self.keys.history is None:
            return {**value, self.keys.of_input(value): messages}, messages
        new = {message.id for message in call.messages}
        history = [message for message in messages if message.id not in new]
        return {**value, self.keys.history: history}, history


@dataclass(frozen=True)
class _AnswerStore:
    """Stores a turn, input and answer together, when the chain's output is complete."""

    call: ChainCall
    keys: MessageKeys
    chunks: list[Any] = field(default_factory=list)

    def transform(self, pieces: Iterator[Any]) -> Iterator[Any]:
        """Pass the output on as it arrives, and store the turn at its end."""
        for chunk in pieces:
            self.chunks.append(chunk)
            yield chunk
        self.call.session.add(self._turn())
        after_reply(self.call.session, self.call.next_request)

    async def atransform(self, pieces: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Do the same as `transform` without blocking the event loop."""
        async for chunk in pieces:
            self.chunks.append(chunk)
            yield chunk
        await in_own_thread(self.call.session.add, self._turn())
        await aafter_reply(self.call.session, self.call.next_request)

    def _turn(self) -> list[BaseMessage]:
        answer = self.keys.answer_in(add_chunks(self.chunks))
        return [*self.call.messages, *to_messages(answer, AIMessage)]

    def keep(self) -> None:
        """Store the input and the text so far, without tool calls: half of one is invalid."""
        texts: list[str] = []
        with suppress(ConfigurationError):  # the part with the answer had not come yet
            texts = [message.text for message in self._turn()[len(self.call.messages) :]]
        partial = AIMessage("\n\n".join([*filter(None, texts), "[interrupted]"]))
        self.call.session.add([*self.call.messages, marked(partial, interrupted=True)])


class _CallChain(RunnableBindingBase[Any, Any]):
    """The chain of one call, which starts again if the provider refuses the request as too long.

    With `on_abort="keep"` it also stores the text of a stopped or failed stream.
    """

    turns: Any
    value: Any
    call: Any
    given: Any
    answer: Any

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None) -> Any:
        """Run the chain, and with a smaller request if the first one is refused as too long."""
        try:
            return super().invoke(input, config, **kwargs)
        except Exception as error:
            call = self._call_after(error)
            if call is None:
                raise
            with raising_first(error):
                again = self.turns.taken(self.value, call, self.given)
                return again.invoke(input, config, **kwargs)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> Any:
        """Do the same as `invoke` without blocking the event loop."""
        try:
            return await super().ainvoke(input, config, **kwargs)
        except Exception as error:
            call = await in_own_thread(self._call_after, error)
            if call is None:
                raise
            with raising_first(error):
                again = await self.turns.ataken(self.value, call, self.given)
                return await again.ainvoke(input, config, **kwargs)

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> Iterator[Any]:
        """Stream the chain; a caller who closes the stream ends it with `GeneratorExit`."""
        try:
            try:
                yield from super().stream(input, config, **kwargs)
            except Exception as error:
                first, call = error, self._call_after(error)
                if call is None:
                    raise
                with raising_first(error):
                    again = self.turns.taken(self.value, call, self.given)
            else:
                return
        except BaseException:
            if self.turns.on_abort == "keep":
                self.answer.keep()
            raise
        with raising_first(first):
            yield from again.stream(input, config, **kwargs)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any | None
    ) -> AsyncIterator[Any]:
        """Do the same as `stream`; a task that is cancelled ends it, too."""
        try:
            try:
                async for chunk in super().astream(input, config, **kwargs):
                    yield chunk
            except Exception as error:
                first, call = error, await in_own_thread(self._call_after, error)
                if call is None:
                    raise
                with raising_first(error):
                    again = await self.turns.ataken(self.value, call, self.given)
            else:
                return
        except BaseException:
            if self.turns.on_abort == "keep":
                await in_own_thread(self.answer.keep)
            raise
        with raising_first(first):
            async for chunk in again.astream(input, config, **kwargs):
                yield chunk

    def _call_after(self, error: Exception) -> ChainCall | None:
        """Return the smaller call after a refusal of which the caller has seen no answer."""
        call: ChainCall | None = None if self.answer.chunks else self.call.after(error)
        return call


def limited_model(
    model: Runnable[Any, Any], *, results: Sequence[TurnResult], name: str | Literal[True]
) -> Runnable[Any, Any]:
    """Return a model whose output limit is what the newest view leaves for its answer.

    Args:
        model: A chat model, or one that the call's config chooses.
        results: The turns of the call, in order; they grow as prompts are rendered.
        name: Name of the setting, or True to choose it by the provider.
    """

    def chosen(_value: Any, config: RunnableConfig, **kwargs: Any) -> Runnable[Any, Any]:
        if isinstance(model, DynamicRunnable):
            inner, _ = model.prepare(config)
            limited = partial(limited_model, results=results, name=name)
            return (replace_model(inner, limited) or inner).bind(**kwargs)
        # The model that a call chooses for `init_chat_model` is built for it.
        made: Any = getattr(model, "_model", None) if is_configurable(model) else None
        settled = made(config) if made else model
        return model.bind(**output_setting(settled, kwargs, results[-1].view.output_left, name))

    async def achosen(value: Any, config: RunnableConfig, **kwargs: Any) -> Runnable[Any, Any]:
        return chosen(value, config, **kwargs)

    return RunnableLambda(chosen, afunc=achosen, name="limit_output")
