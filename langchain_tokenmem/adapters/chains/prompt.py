"""Prompts that leave their history what the rest does not use."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, get_buffer_string
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.prompts import BasePromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
)
from pydantic import BaseModel

from langchain_tokenmem.background import at_once, completed, in_own_thread
from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.inserted_text import PINS_FENCE, merged_system
from langchain_tokenmem.core.messages import marked, marks_of, role_of
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View, messages_to_send
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.state import MemoryState, new_state
from langchain_tokenmem.turns.conversation import TurnRequest, TurnResult
from langchain_tokenmem.turns.overflow import is_overflow, tighter_request
from langchain_tokenmem.turns.stored_session import StoredSession
from langchain_tokenmem.turns.turn import atake_turn, take_turn


def ensure_id(message: BaseMessage) -> BaseMessage:
    """Return the message with an id; a new one if it has none."""
    return message if message.id else message.model_copy(update={"id": str(uuid4())})


def to_messages(value: Any, kind: type[HumanMessage | AIMessage]) -> list[BaseMessage]:
    """Return a value as messages; a bare text becomes one of `kind`, other data one of its JSON.

    An input may name its messages as LangChain does: by texts, pairs of role and text, or dicts.
    """
    if isinstance(value, PromptValue):
        return value.to_messages()
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(item, BaseMessage) for item in several):
        return several
    if kind is HumanMessage and isinstance(value, (list, tuple, dict)):
        with suppress(ConfigurationError):  # other data than messages
            return list(as_messages(value))
    return [] if value is None else [kind(_as_text(value))]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=_as_plain, ensure_ascii=False)


def _as_plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


@dataclass(frozen=True)
class MessageKeys:
    """Keys of the messages in dict inputs and outputs; without a name, guessed as LangChain does.

    Attributes:
        input: Key of the new input.
        history: Key of the history; None if it is prepended to the input messages.
        output: Key of the answer.
    """

    input: str | None = None
    history: str | None = None
    output: str | None = None

    def of_input(self, value: dict[str, Any]) -> str:
        """Return the key of the input in `value`."""
        return self.input or _only_key(value, "input")

    def answer_in(self, output: Any) -> Any:
        """Return the answer in an output: the value of its key, if that is a text or messages.

        Any other output, such as that of a parser, is the answer itself. With
        `with_structured_output(..., include_raw=True)` it is what was parsed, as without the raw
        message, or that if it could not be parsed.

        Raises:
            ConfigurationError: When the output does not have the key, or holds the chain's input,
                too, and no key is given.
        """
        if not isinstance(output, dict):
            return output
        if self.output in output:
            return output[self.output]
        is_input = len(output) > 1 and not {self.input, self.history}.isdisjoint(output)
        is_input = is_input and "output" not in output
        if self.output or is_input:
            raise ConfigurationError(
                f"Which part of the chain's output is the answer? It has the keys "
                f"{', '.join(map(repr, output))}: name one with output_messages_key=."
            )
        if output.keys() == {"raw", "parsed", "parsing_error"}:
            return output["raw"] if output["parsed"] is None else output["parsed"]
        found = output.get(_only_key(output, "output"), output)
        if isinstance(found, list) and found and all(isinstance(m, BaseMessage) for m in found):
            return found
        return found if isinstance(found, str | BaseMessage) else output


def _only_key(value: dict[str, Any], otherwise: str) -> str:
    return next(iter(value)) if len(value) == 1 else otherwise


def add_chunks(pieces: list[Any]) -> Any:
    """Return streamed pieces as one value: their sum if they can be added, else the last one."""
    return reduce(_sum, pieces) if pieces else None


def _sum(whole: Any, piece: Any) -> Any:
    try:
        return whole + piece
    except TypeError:
        return piece


_HISTORY_MARK = HumanMessage("", id="tm-history")
"""Marks the place of the history in the rendered prompt."""


@dataclass(frozen=True)
class ChainCall:
    """One call of a chain with a memory.

    Attributes:
        session: Its conversation.
        messages: What is new in it.
        request: What surrounds them.
        handed: The messages of the view that were put into the chain's input, with ids.
        fitted: What surrounds the history in each prompt that was rendered, in order.
        results: The turns that were taken for it, in order.
        errors: The errors of its model.
    """

    session: StoredSession
    messages: list[BaseMessage]
    request: TurnRequest
    handed: Sequence[BaseMessage] = ()
    fitted: list[TurnRequest] = field(default_factory=list)
    results: list[TurnResult] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def next_request(self) -> TurnRequest:
        """The next call of the same chain, as far as it is known."""
        return replace([self.request, *self.fitted][-1], incoming=(), instruction=None)

    def after(self, error: Exception) -> ChainCall | None:
        """Return the call after its model found the request too long.

        None for another error or another component's, after an earlier refusal, and if the request
        cannot shrink.
        """
        is_refusal = any(error is one for one in self.errors) and is_overflow(error)
        if not is_refusal or self.request.instruction is not None:
            return None
        memory = self.session.configured().memory
        request = tighter_request(memory, self.request, self.results[-1].view)
        return None if request is None else ChainCall(self.session, self.messages, request)


class ModelErrors(BaseCallbackHandler):
    """Collects the errors of a chain's model, not those of its other steps."""

    run_inline = True

    def __init__(self, errors: list[BaseException]) -> None:
        self._errors = errors

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """Note an error."""
        self._errors.append(error)


class HistoryText(list[BaseMessage]):
    """A history that a prompt may write as text, a line for each message, as LangChain does."""

    def __str__(self) -> str:
        return get_buffer_string(self)


class FittedPrompt(Runnable[Any, PromptValue]):
    """A prompt with a history that fits beside its other parts.

    A history that earlier steps of the chain have changed, masked or trimmed, is sent as they
    returned it; if the request would exceed the limit, its oldest messages are left out.
    """

    def __init__(
        self,
        prompt: BasePromptTemplate[Any],
        call: ChainCall,
        place: str,
        *,
        is_history: bool,
    ) -> None:
        self._prompt = prompt
        self._call = call
        self._is_history = is_history
        names = prompt.input_variables
        # A prompt with one variable may get its value without the name.
        self._place = names[0] if not place and len(names) == 1 else place
        parts = getattr(prompt, "messages", ())
        as_messages = {p.variable_name for p in parts if isinstance(p, MessagesPlaceholder)}
        self._is_text = self._place in names and self._place not in as_messages
        self._is_messages = self._place in as_messages

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> PromptValue:
        """Render the prompt around the view."""
        render = partial(at_once, partial(self._prompt.invoke, config=config, **kwargs))
        return completed(self._rendered(input, render, partial(at_once, take_turn), at_once))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> PromptValue:
        """Render the prompt around the view, without blocking the event loop."""
        render = partial(self._prompt.ainvoke, config=config, **kwargs)
        return await self._rendered(input, render, atake_turn, in_own_thread)

    async def _rendered(
        self,
        value: Any,
        render: Callable[[Any], Awaitable[PromptValue]],
        take: Callable[..., Awaitable[TurnResult]],
        run: Callable[..., Awaitable[PromptValue]],
    ) -> PromptValue:
        """Return the prompt around the view, by calls that wait for the event loop or not."""
        given, session = self._named(value), self._call.session
        if self._is_unchanged_text(given):
            bare = await render({**given, self._place: HistoryText()})
            fitted = await take(session, self._request_around(bare))
            return await render(self._with_text(given, fitted))
        rendered = await render(given)
        found = self._history_in(rendered.to_messages(), self._ids_in(given))
        if found is None:
            return await run(self._within_limit, rendered)
        return await run(self._value_of, await take(session, found.request), found)

    def _named(self, given: Any) -> Any:
        """Return the prompt's input with ids in its history; an empty one has a mark in its place.

        A prompt that writes the history as text gets lines.
        """
        named = given if isinstance(given, dict) else {self._place: given}
        value = named.get(self._place)
        if not (self._is_text or self._is_messages) or not isinstance(value, list | tuple):
            return given
        messages = [*value]
        if self._is_messages:
            with suppress(ConfigurationError):  # other data than messages
                messages = [*as_messages(messages)]
        if not all(isinstance(message, BaseMessage) for message in messages):
            return given
        messages = [*map(ensure_id, messages)]
        if self._is_messages:
            messages = messages or [_HISTORY_MARK]
        return {**named, self._place: HistoryText(messages)}

    def _ids_in(self, given: Any) -> set[str | None]:
        """Return the ids of the history that the chain was handed, and of that of the prompt."""
        value = given.get(self._place) if isinstance(given, dict) else ()
        named = value if isinstance(value, HistoryText) else ()
        return {message.id for message in (*self._call.handed, *named)}

    def _is_unchanged_text(self, given: Any) -> bool:
        """Return whether the prompt writes the history as text that the chain was handed."""
        return (
            self._is_text
            and isinstance(given, dict)
            and given.get(self._place) == self._call.handed
        )

    def _request_around(self, bare: PromptValue) -> TurnRequest:
        """Return the request of a history that is written as text, from the prompt without it."""
        call = self._call
        rest = sum(map(self._count, bare.to_messages()))
        if self._is_history:  # the new input is in the prompt's text
            rest = max(0, rest - sum(map(self._count, call.messages)))
        overhead = call.request.options.get("overhead_tokens", 0) + rest
        options: RequestOptions = {**call.request.options, "overhead_tokens": overhead}
        request = replace(call.request, options=options, instruction=None, is_sent=True)
        call.fitted.append(request)
        return request

    @property
    def _count(self) -> Callable[[BaseMessage], int]:
        memory = self._call.session.memory
        return memory.engine.counter_of(memory.budget).message

    def _with_text(self, given: dict[str, Any], result: TurnResult) -> dict[str, Any]:
        self._call.results.append(result)
        new = {message.id for message in self._call.messages} if self._is_history else set()
        history = [message for message in result.view.messages if message.id not in new]
        return {**given, self._place: HistoryText(history)}

    def _within_limit(self, value: PromptValue) -> PromptValue:
        """Return a prompt in which no history is found, with less of it if it is over the limit."""
        messages, options = value.to_messages(), self._call.request.options
        usage = self._call.results[-1].view.usage
        around = options.get("overhead_tokens", 0) + usage.parts["tools"]
        if self._call.session.memory.count(messages).tokens + around <= usage.max_tokens:
            return value
        view = self._call.session.configured().memory.view(messages, **options)
        self._call.results.append(replace(self._call.results[-1], view=view))
        return ChatPromptValue(messages=view.messages)

    def _history_in(self, rendered: Sequence[BaseMessage], ids: set[str | None]) -> _Found | None:
        """Return the history in a rendered prompt and what surrounds it; None without a history.

        Args:
            rendered: The prompt's messages.
            ids: Those of the history.
        """
        call = self._call
        places = [index for index, message in enumerate(rendered) if message.id in ids]
        if not places:
            return None
        before, after = list(rendered[: places[0]]), list(rendered[places[-1] + 1 :])
        examples = [message for message in before if role_of(message) != "system"]
        incoming = (
            _as_stored(after, call.messages) if self._is_history else [*call.messages, *after]
        )
        options = call.request.options
        overhead = options.get("overhead_tokens", 0) + sum(map(self._count, examples))
        system = merged_system([m for m in before if role_of(m) == "system"])
        fitted: RequestOptions = {
            **options,
            "system": system or "",
            "overhead_tokens": overhead,
            "overhead_messages": len(examples),
        }
        request = replace(
            call.request, incoming=incoming, options=fitted, instruction=None, is_sent=True
        )
        call.fitted.append(request)
        span = [*rendered[places[0] : places[-1] + 1]]
        return _Found(request, [m for m in span if m.id != _HISTORY_MARK.id], examples, after)

    def _value_of(self, result: TurnResult, found: _Found) -> PromptValue:
        if found.history != self._call.handed:
            result = replace(result, view=self._changed_view(found, result.state))
        view = result.view
        if not found.examples:
            messages_to_send(view, f"Session {self._call.session.session_id!r}")
        self._call.results.append(result)
        front = [message for message in view.messages if role_of(message) == "system"]
        body = view.messages[len(front) :]
        return ChatPromptValue(messages=[*front, *found.examples, *body])

    def _changed_view(self, found: _Found, state: MemoryState) -> View:
        """Return the view of a history that earlier steps of the chain have changed.

        The new messages get what was recalled for them, and the request its pins, if the history
        does not have them any more.
        """
        new = [*found.request.incoming] if self._is_history else found.after
        ids = {message.id for message in new}
        has_pins = any(PINS_FENCE in message.text for message in found.history)
        shown: MemoryState = {
            **new_state(),
            "pins": [] if has_pins else state.get("pins", []),
            "blocks": {key: block for key, block in state["blocks"].items() if key in ids},
        }
        memory = self._call.session.configured().memory
        return memory.view([*found.history, *new], shown, **found.request.options)


@dataclass(frozen=True)
class _Found:
    """The history in a rendered prompt, and what surrounds it.

    Attributes:
        request: The turn that fits the history.
        history: Its messages, as rendered.
        examples: Messages before it that are not system text.
        after: Messages behind it.
    """

    request: TurnRequest
    history: list[BaseMessage]
    examples: list[BaseMessage]
    after: list[BaseMessage]


def _as_stored(rendered: list[BaseMessage], messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return rendered messages with the ids and times under which their content will be stored.

    If a prompt puts other text around the input, its last human message gets the input's time.
    """
    by_text = {str(message.content): message for message in messages}
    by_id = {message.id: message for message in messages}
    found = [by_id.get(m.id) if m.id else by_text.get(str(m.content)) for m in rendered]
    humans = [n for n, message in enumerate(rendered) if role_of(message) == "human"]
    shown: list[BaseMessage] = []
    for place, (message, same) in enumerate(zip(rendered, found, strict=True)):
        is_around = not any(found) and place in humans[-1:]
        named = message if message.id else message.model_copy(update={"id": same and same.id})
        source = messages[-1] if is_around else same
        time = marks_of(source).get("created_at") if source else None
        shown.append(ensure_id(marked(named, created_at=time) if time else named))
    return shown
