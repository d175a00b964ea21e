"""Chat prompts that leave their history what the rest does not use, and the chains they are in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.prompts.chat import BaseChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableConfig,
    RunnableSequence,
    RunnableSerializable,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from pydantic import BaseModel

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.chat_models import window_of
from langchain_tokenmem.core.inserted_text import merged_system
from langchain_tokenmem.core.messages import marked, marks_of, role_of
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import messages_to_send
from langchain_tokenmem.errors import ConfigurationError
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
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return json.dumps(value, default=str, ensure_ascii=False)


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
        """
        if not isinstance(output, dict):
            return output
        if self.output:
            return output.get(self.output, output)
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
        shown: Ids of the view that was put into the chain's input.
        fitted: What surrounds the history in each prompt that was rendered, in order.
        results: The turns that were taken for it, in order.
        errors: The errors of its model.
    """

    session: StoredSession
    messages: list[BaseMessage]
    request: TurnRequest
    shown: frozenset[str | None] = frozenset()
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


class FittedPrompt(Runnable[Any, PromptValue]):
    """A chat prompt whose history is fitted to what the rest of the prompt leaves."""

    def __init__(
        self, prompt: BaseChatPromptTemplate, call: ChainCall, place: str, *, is_history: bool
    ) -> None:
        self._prompt = prompt
        self._call = call
        self._place = place
        self._is_history = is_history

    def invoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> PromptValue:
        """Render the prompt around the view."""
        rendered = self._prompt.invoke(
            self._with_history_mark(input), config, **kwargs
        ).to_messages()
        fitting = self._turn_request(rendered)
        if fitting is None:
            return ChatPromptValue(messages=rendered)
        request, examples = fitting
        return self._prompt_value(take_turn(self._call.session, request), examples)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> PromptValue:
        """Render the prompt around the view, without blocking the event loop."""
        value = await self._prompt.ainvoke(self._with_history_mark(input), config, **kwargs)
        fitting = self._turn_request(value.to_messages())
        if fitting is None:
            return value
        request, examples = fitting
        return self._prompt_value(await atake_turn(self._call.session, request), examples)

    def _with_history_mark(self, given: Any) -> Any:
        """Return the prompt's input with a mark where the history goes, if it goes there by name.

        A prompt that writes the history as text keeps its messages.
        """
        if not isinstance(given, dict):
            return [_HISTORY_MARK] if isinstance(given, list) else given
        if self._place not in given or self._place not in self._message_variables():
            return given
        return {**given, self._place: [_HISTORY_MARK]}

    def _message_variables(self) -> set[str]:
        parts = getattr(self._prompt, "messages", ())
        return {part.variable_name for part in parts if isinstance(part, MessagesPlaceholder)}

    def _turn_request(
        self, rendered: Sequence[BaseMessage]
    ) -> tuple[TurnRequest, list[BaseMessage]] | None:
        """Return what surrounds the history, and the examples before it; None without a history.

        Under another key the history is recognized by the ids of its messages.
        """
        call = self._call
        new = {message.id for message in call.messages}
        shown = {_HISTORY_MARK.id, *(call.shown - new)}
        places = [index for index, message in enumerate(rendered) if message.id in shown]
        if not places:
            return None
        before, after = list(rendered[: places[0]]), list(rendered[places[-1] + 1 :])
        examples = [message for message in before if role_of(message) != "system"]
        incoming = _as_stored(after, call.messages)
        if not self._is_history:
            incoming = [*call.messages, *(one for one in after if one.id not in new)]
        memory = call.session.memory
        count = memory.engine.counter_of(memory.budget).message
        options = call.request.options
        overhead = options.get("overhead_tokens", 0) + sum(map(count, examples))
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
        return request, examples

    def _prompt_value(self, result: TurnResult, examples: list[BaseMessage]) -> PromptValue:
        view = result.view
        if not examples:
            messages_to_send(view, f"Session {self._call.session.session_id!r}")
        self._call.results.append(result)
        front = [message for message in view.messages if role_of(message) == "system"]
        body = view.messages[len(front) :]
        return ChatPromptValue(messages=[*front, *examples, *body])


def _as_stored(rendered: list[BaseMessage], said: list[BaseMessage]) -> list[BaseMessage]:
    """Return rendered messages with the ids and times under which their content will be stored.

    If a prompt puts other text around the input, its last human message gets the input's time.
    """
    by_text = {str(message.content): message for message in said}
    by_id = {message.id: message for message in said}
    found = [by_id.get(m.id) if m.id else by_text.get(str(m.content)) for m in rendered]
    humans = [n for n, message in enumerate(rendered) if role_of(message) == "human"]
    shown: list[BaseMessage] = []
    for place, (message, same) in enumerate(zip(rendered, found, strict=True)):
        is_around = not any(found) and place in humans[-1:]
        named = message if message.id else message.model_copy(update={"id": same and same.id})
        source = said[-1] if is_around else same
        time = marks_of(source).get("created_at") if source else None
        shown.append(ensure_id(marked(named, created_at=time) if time else named))
    return shown


def bound_kwarg(runnable: Runnable[Any, Any], name: str) -> Any:
    """Return a keyword that is bound to the model nearest to a chain's end, such as its tools."""
    own = runnable.kwargs.get(name) if isinstance(runnable, RunnableBindingBase) else None
    if own:
        return own
    parts = _parts(runnable)
    return next((found for part in parts if (found := bound_kwarg(part, name))), None)


def bound_model(runnable: Runnable[Any, Any], config: RunnableConfig | None = None) -> Any:
    """Return the last chat model of a chain, with its fallbacks; None if it has none.

    Of the models of a `RunnableBranch` it is the one with the smallest window.

    Args:
        runnable: The chain.
        config: The call's config, which may choose the model (`configurable_alternatives`,
            `configurable_fields`, `init_chat_model` without a model).
    """
    if isinstance(runnable, BaseLanguageModel):
        return runnable
    if isinstance(runnable, DynamicRunnable):
        return bound_model(runnable.prepare(config)[0], config)
    if is_configurable(runnable):
        return _configured_name(runnable, config)
    if isinstance(runnable, RunnableWithFallbacks) and bound_model(runnable.runnable, config):
        return runnable
    found = (model for part in _parts(runnable) if (model := bound_model(part, config)))
    if isinstance(runnable, RunnableBranch):  # the request has to fit whichever is chosen
        return min(found, key=lambda model: window_of(model) or math.inf, default=None)
    return next(found, None)


def _configured_name(model: Any, config: RunnableConfig | None) -> str | None:
    """Return the name that a call chooses for `init_chat_model`; making the model takes longer."""
    chosen = {**model._default_config, **model._model_params(config)}  # noqa: SLF001
    name, provider = chosen.get("model"), chosen.get("model_provider")
    return f"{provider}:{name}" if name and provider else name


def has_prompt(runnable: Runnable[Any, Any]) -> bool:
    """Return whether a chain contains a chat prompt."""
    return isinstance(runnable, BaseChatPromptTemplate) or any(map(has_prompt, _parts(runnable)))


def replace_prompts(
    runnable: Runnable[Any, Any],
    replacement: Callable[[BaseChatPromptTemplate], Runnable[Any, Any]],
) -> Runnable[Any, Any]:
    """Return a chain with each of its chat prompts replaced; the given one if it has none."""
    if isinstance(runnable, BaseChatPromptTemplate):
        return replacement(runnable)
    return _with_parts(runnable, lambda part: replace_prompts(part, replacement))


def replace_model(
    runnable: Runnable[Any, Any], replacement: Callable[[Any], Runnable[Any, Any]]
) -> Runnable[Any, Any] | None:
    """Return a chain with the model nearest to its end replaced; None if it has none.

    Fallbacks are replaced with it, and every model of parts that run side by side.
    """
    if isinstance(runnable, BaseLanguageModel) or is_configurable(runnable):
        return replacement(runnable)
    if isinstance(runnable, DynamicRunnable):  # only a call shows which model it is
        return replacement(runnable) if bound_model(runnable) else None
    if isinstance(runnable, RunnableSequence):
        steps = list(runnable.steps)
        for place in range(len(steps) - 1, -1, -1):
            if (step := replace_model(steps[place], replacement)) is not None:
                steps[place] = step
                update = {"first": steps[0], "middle": steps[1:-1], "last": steps[-1]}
                return runnable.model_copy(update=update)
        return None

    changed = _with_parts(runnable, lambda part: replace_model(part, replacement) or part)
    return None if changed is runnable else changed


def is_configurable(runnable: Any) -> bool:
    """Return whether a runnable is `init_chat_model` without a model, which a call chooses."""
    return type(runnable).__name__ == "_ConfigurableModel"


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a composed runnable; empty for a model or anything else."""
    is_composed = isinstance(value, RunnableSerializable)
    if not is_composed or isinstance(value, (BaseLanguageModel, BaseChatPromptTemplate)):
        return {}
    return {name: getattr(value, name) for name in type(value).model_fields}


def _parts(runnable: Any) -> list[Runnable[Any, Any]]:
    """Return the runnables in the fields of a composed one, the one nearest to the model first."""
    parts = [part for value in _fields(runnable).values() for part in _runnables(value)]
    return parts[::-1] if isinstance(runnable, RunnableSequence) else parts


def _runnables(value: Any) -> Iterator[Runnable[Any, Any]]:
    """Yield the runnables in a field's value."""
    if isinstance(value, Runnable):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _runnables(item)


def _with_parts(
    runnable: Any, change: Callable[[Runnable[Any, Any]], Runnable[Any, Any]]
) -> Runnable[Any, Any]:
    """Return a composed runnable with its parts changed; the given one if none is."""

    def changed(value: Any) -> Any:
        if isinstance(value, Runnable):
            return change(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(changed, value))
        return {k: changed(v) for k, v in value.items()} if isinstance(value, dict) else value

    update = {}
    for name, value in _fields(runnable).items():
        new = changed(value)
        if any(a is not b for a, b in zip(_runnables(new), _runnables(value), strict=True)):
            update[name] = new
    copy: Runnable[Any, Any] = runnable.model_copy(update=update) if update else runnable
    return copy
