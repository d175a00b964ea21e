"""`FittedPrompt`: a chat prompt that leaves its history the tokens that the rest does not use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.prompts.chat import BaseChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import (
    Runnable,
    RunnableAssign,
    RunnableBranch,
    RunnableConfig,
    RunnableParallel,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import BaseModel

from langchain_tokenmem.adapters.chains.message_io import ensure_id
from langchain_tokenmem.core.inserted_text import merged_system
from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.view import View
from langchain_tokenmem.turns.stored_session import StoredSession
from langchain_tokenmem.turns.turn import TurnRequest, atake_turn, take_turn

_HISTORY_MARK = HumanMessage("", id="tm-history")
"""Stands in the rendered prompt where the history goes."""


@dataclass(frozen=True)
class ChainCall:
    """One call of a chain with a memory.

    Attributes:
        session: Its conversation.
        messages: What is new in it.
        request: What surrounds them.
        shown: Ids of the view that was put into the chain's input.
    """

    session: StoredSession
    messages: list[BaseMessage]
    request: TurnRequest
    shown: frozenset[str | None] = frozenset()


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
        return _prompt_value(take_turn(self._call.session, request).view, examples)

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
        return _prompt_value((await atake_turn(self._call.session, request)).view, examples)

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
        """Return what surrounds the history, and the examples in front; None without a history.

        Under another key the history is known by the ids of its messages.
        """
        call = self._call
        new = {message.id for message in call.messages}
        shown = {_HISTORY_MARK.id, *(call.shown - new)}
        places = [index for index, message in enumerate(rendered) if message.id in shown]
        if not places:
            return None
        before, after = list(rendered[: places[0]]), list(rendered[places[-1] + 1 :])
        examples = [message for message in before if role_of(message) != "system"]
        incoming = _with_stored_ids(after, call.messages)
        if not self._is_history:
            incoming = [*call.messages, *(one for one in after if one.id not in new)]
        count = call.session.memory.counter_of(call.session.memory.budget).message
        options = call.request.options
        overhead = options.get("overhead_tokens", 0) + sum(map(count, examples))
        system = merged_system([m for m in before if role_of(m) == "system"])
        fitted: RequestOptions = {**options, "system": system, "overhead_tokens": overhead}
        return replace(call.request, incoming=incoming, options=fitted), examples


def _prompt_value(view: View, examples: list[BaseMessage]) -> PromptValue:
    front = [message for message in view.messages if role_of(message) == "system"]
    body = view.messages[len(front) :]
    return ChatPromptValue(messages=[*front, *examples, *body])


def _with_stored_ids(rendered: list[BaseMessage], said: list[BaseMessage]) -> list[BaseMessage]:
    """Return rendered messages with the ids under which the same words will be stored."""
    ids = {str(message.content): message.id for message in said}
    return [
        message
        if message.id
        else ensure_id(message.model_copy(update={"id": ids.get(str(message.content))}))
        for message in rendered
    ]


def replace_prompts(
    runnable: Runnable[Any, Any], fitted: Callable[[BaseChatPromptTemplate], Runnable[Any, Any]]
) -> Runnable[Any, Any] | None:
    """Return the chain with each of its chat prompts replaced, wherever it stands; None for none.

    Sequences, bindings (retries too), fallbacks, parallel steps, assignments and branches are
    looked into.
    """
    if isinstance(runnable, BaseChatPromptTemplate):
        return fitted(runnable)
    if isinstance(runnable, RunnableSequence):
        steps = [replace_prompts(step, fitted) for step in runnable.steps]
        if not any(steps):
            return None
        changed = [new or old for new, old in zip(steps, runnable.steps, strict=True)]
        return RunnableSequence(*changed, name=runnable.name)
    update = _replaced_fields(runnable, fitted)
    if not update or not isinstance(runnable, BaseModel):
        return None
    return cast("Runnable[Any, Any]", runnable.model_copy(update=update))


def _replaced_fields(
    runnable: Runnable[Any, Any], fitted: Callable[[BaseChatPromptTemplate], Runnable[Any, Any]]
) -> dict[str, Any]:
    """Return the fields of a composed runnable in which prompts were replaced."""
    if isinstance(runnable, RunnableBindingBase):
        return _replaced_parts({"bound": runnable.bound}, fitted)
    if isinstance(runnable, RunnableAssign):
        return _replaced_parts({"mapper": runnable.mapper}, fitted)
    if isinstance(runnable, RunnableParallel):
        steps = _replaced_parts(dict(runnable.steps__), fitted)
        return {"steps__": {**runnable.steps__, **steps}} if steps else {}
    if isinstance(runnable, RunnableWithFallbacks):
        fallbacks = [replace_prompts(one, fitted) or one for one in runnable.fallbacks]
        return {**_replaced_parts({"runnable": runnable.runnable}, fitted), "fallbacks": fallbacks}
    if isinstance(runnable, RunnableBranch):
        branches = [
            (when, replace_prompts(then, fitted) or then) for when, then in runnable.branches
        ]
        return {**_replaced_parts({"default": runnable.default}, fitted), "branches": branches}
    return {}


def _replaced_parts(
    parts: Mapping[str, Runnable[Any, Any]],
    fitted: Callable[[BaseChatPromptTemplate], Runnable[Any, Any]],
) -> dict[str, Any]:
    """Return those of the parts that hold a prompt, with it replaced."""
    found = {name: replace_prompts(part, fitted) for name, part in parts.items()}
    return {name: part for name, part in found.items() if part is not None}
