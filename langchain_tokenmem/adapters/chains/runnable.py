"""The door for chains of any shape: `with_token_memory` budgets the whole request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForChainRun,
    CallbackManagerForChainRun,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts.chat import BaseChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import patch_config
from langchain_core.runnables.utils import ConfigurableFieldSpec

from langchain_tokenmem.adapters.chains.bound_kwargs import bound_kwarg, format_tokens
from langchain_tokenmem.adapters.chains.message_io import Keys, added_up, messages_of, with_id
from langchain_tokenmem.adapters.chains.prompt import FittedPrompt, Turn, with_prompts
from langchain_tokenmem.core.view import View
from langchain_tokenmem.errors import ConfigurationError, ScopeError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.conversation import Request
from langchain_tokenmem.turns.session import Session


def with_token_memory(
    runnable: Runnable[Any, Any],
    memory: TokenMemory | None = None,
    store: TranscriptStore | None = None,
    *,
    input_messages_key: str | None = None,
    history_messages_key: str | None = None,
    output_messages_key: str | None = None,
    overhead_tokens: int = 0,
) -> Runnable[Any, Any]:
    """Give a chain a memory that fits the window, whatever was said before.

    Where the chain holds a chat prompt the budget is applied behind it: system text, examples,
    history, the new input and the tools bound to the model are counted as one request. Elsewhere
    history and input are counted, and `overhead_tokens` stands for the rest.

    The session is named at each call by `config["configurable"]`: `session_id` (required),
    `user_id` and `token_budget` (a `TokenBudget` for this call; it beats the session's, which
    beats the memory's). Input and output are stored together when the call has ended well.

    Args:
        runnable: The chain; takes a dict, or messages.
        memory: Decides what is shown; default: a `TokenMemory()`.
        store: Keeps the transcript; default: `TranscriptStore()`, a SQLite file.
        input_messages_key: Key of the new input in a dict input.
        history_messages_key: Key under which the chain expects the history; without one the
            history stands in front of the input messages.
        output_messages_key: Key of the answer in a dict output.
        overhead_tokens: Tokens of the request that neither prompt nor input shows.

    Returns:
        A runnable with `invoke`, `batch`, `stream` and their async twins.

    Raises:
        ScopeError: At a call without a `session_id`.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from langchain_tokenmem import TranscriptStore
        >>> chain = with_token_memory(
        ...     FakeListChatModel(responses=["hello"]), store=TranscriptStore("sqlite://")
        ... )
        >>> chain.invoke("hi", {"configurable": {"session_id": "s1"}}).content
        'hello'
    """
    return TokenMemoryRunnable(
        runnable,
        memory or TokenMemory(),
        store or TranscriptStore(),
        Keys(input_messages_key, history_messages_key, output_messages_key),
        overhead_tokens,
    )


class TokenMemoryRunnable(Runnable[Any, Any]):
    """What `with_token_memory` returns."""

    def __init__(
        self,
        bound: Runnable[Any, Any],
        memory: TokenMemory,
        store: TranscriptStore,
        keys: Keys,
        overhead_tokens: int,
    ) -> None:
        self.bound = bound
        self.memory = memory
        self.store = store
        self._keys = keys
        self._overhead = overhead_tokens + format_tokens(bound, memory)
        self._tools = bound_kwarg(bound, "tools")
        self.name = "with_token_memory"

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a call may name under `configurable`."""
        return [
            *self.bound.config_specs,
            ConfigurableFieldSpec(id="session_id", annotation=str, name="Session"),
            ConfigurableFieldSpec(id="user_id", annotation=str | None, name="User", default=None),
        ]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run the chain once with its memory."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Run the chain once with its memory, without blocking the event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def stream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any | None,
    ) -> Iterator[Any]:
        """Stream the chain's answer; it is stored when the stream has ended."""
        yield from self.transform(iter([input]), config, **kwargs)

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any | None,
    ) -> AsyncIterator[Any]:
        """Stream the chain's answer without blocking the event loop."""

        async def once() -> AsyncIterator[Any]:
            yield input

        async for chunk in self.atransform(once(), config, **kwargs):
            yield chunk

    def transform(
        self,
        input: Iterator[Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any | None,
    ) -> Iterator[Any]:
        """Stream the chain's answer to an input that comes in pieces."""
        yield from self._transform_stream_with_config(input, self._transform, config, **kwargs)

    async def atransform(
        self,
        input: AsyncIterator[Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any | None,
    ) -> AsyncIterator[Any]:
        """Stream the chain's answer to an input that comes in pieces, asynchronously."""
        async for chunk in self._atransform_stream_with_config(
            input, self._atransform, config, **kwargs
        ):
            yield chunk

    def _invoke(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config)
        chain, given = self._prepared(value, turn)
        output = chain.invoke(
            given, patch_config(config, callbacks=run_manager.get_child()), **kwargs
        )
        self._store(turn, output)
        return output

    async def _ainvoke(
        self,
        value: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config)
        chain, given = await self._aprepared(value, turn)
        output = await chain.ainvoke(
            given, patch_config(config, callbacks=run_manager.get_child()), **kwargs
        )
        await self._astore(turn, output)
        return output

    def _transform(
        self,
        pieces: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        value = added_up(list(pieces))
        turn = self._turn(value, config)
        chain, given = self._prepared(value, turn)
        chunks = []
        child = patch_config(config, callbacks=run_manager.get_child())
        for chunk in chain.stream(given, child, **kwargs):
            chunks.append(chunk)
            yield chunk
        self._store(turn, added_up(chunks))

    async def _atransform(
        self,
        pieces: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        value = added_up([piece async for piece in pieces])
        turn = self._turn(value, config)
        chain, given = await self._aprepared(value, turn)
        chunks = []
        child = patch_config(config, callbacks=run_manager.get_child())
        async for chunk in chain.astream(given, child, **kwargs):
            chunks.append(chunk)
            yield chunk
        await self._astore(turn, added_up(chunks))

    def _turn(self, value: Any, config: RunnableConfig) -> Turn:
        configurable = config.get("configurable") or {}
        session_id = configurable.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            raise ScopeError(
                "This chain has a memory: name the session, "
                'chain.invoke(input, {"configurable": {"session_id": "..."}}).'
            )
        session = Session(self.memory, self.store, session_id, configurable.get("user_id"))
        given = value.get(self._keys.of_input(value)) if isinstance(value, dict) else value
        messages = [with_id(message) for message in messages_of(given, HumanMessage)]
        if not messages:
            raise ConfigurationError(
                f"Session {session_id!r}: the input holds no message. Pass a text, a message or a "
                f"list of messages, or name its key with input_messages_key."
            )
        request = Request(
            incoming=messages,
            tools=self._tools,
            overhead_tokens=self._overhead,
            budget=configurable.get("token_budget"),
        )
        return Turn(session, messages, request)

    def _prepared(self, value: Any, turn: Turn) -> tuple[Runnable[Any, Any], Any]:
        return self._fitted(value, turn, turn.session.view(turn.request))

    async def _aprepared(self, value: Any, turn: Turn) -> tuple[Runnable[Any, Any], Any]:
        return self._fitted(value, turn, await turn.session.aview(turn.request))

    def _fitted(self, value: Any, turn: Turn, view: View) -> tuple[Runnable[Any, Any], Any]:
        """Return the chain with prompts that fit, and its input with the view in its place."""
        turn = replace(turn, shown=frozenset(message.id for message in view.messages))
        keys = self._keys
        place = keys.history or (keys.of_input(value) if isinstance(value, dict) else "")

        def fitted(prompt: BaseChatPromptTemplate) -> Runnable[Any, Any]:
            return FittedPrompt(prompt, turn, place, is_history=bool(keys.history))

        return with_prompts(self.bound, fitted) or self.bound, self._given(value, turn, view)

    def _given(self, value: Any, turn: Turn, view: View) -> Any:
        """Return the chain's input with the view in its place."""
        if not isinstance(value, dict):
            return view.messages
        if self._keys.history is None:
            return {**value, self._keys.of_input(value): view.messages}
        new = {message.id for message in turn.messages}
        history = [message for message in view.messages if message.id not in new]
        return {**value, self._keys.history: history}

    def _store(self, turn: Turn, output: Any) -> None:
        session = turn.session
        session.store.add(session.session_id, self._said(turn, output), user_id=session.user_id)

    async def _astore(self, turn: Turn, output: Any) -> None:
        session = turn.session
        await session.store.aadd(
            session.session_id, self._said(turn, output), user_id=session.user_id
        )

    def _said(self, turn: Turn, output: Any) -> list[BaseMessage]:
        return [*turn.messages, *messages_of(self._keys.answer_in(output), AIMessage)]
