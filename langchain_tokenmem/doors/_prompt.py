"""A chat prompt inside a chain whose history is fitted to what the rest of it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.prompts.chat import BaseChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase

from langchain_tokenmem.core.messages import role_of
from langchain_tokenmem.core.render import merged_system
from langchain_tokenmem.core.view import View
from langchain_tokenmem.doors._spoken import with_id
from langchain_tokenmem.session import Request, Session

_PLACE = HumanMessage("", id="tm-history")
"""Stands in the rendered prompt where the history goes."""


@dataclass(frozen=True)
class Turn:
    """One call: its session, its new messages, and what surrounds them."""

    session: Session
    messages: list[BaseMessage]
    request: Request


class FittedPrompt(Runnable[dict[str, Any], PromptValue]):
    """A chat prompt whose history is fitted to what the rest of the prompt leaves."""

    def __init__(
        self, prompt: BaseChatPromptTemplate, turn: Turn, place: str, *, is_history: bool
    ) -> None:
        self._prompt = prompt
        self._turn = turn
        self._place = place
        self._is_history = is_history

    def invoke(
        self,
        input: dict[str, Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> PromptValue:
        """Render the prompt around the view."""
        empty = self._prompt.invoke({**input, self._place: [_PLACE]}, config, **kwargs)
        request, examples = self._request(empty.to_messages())
        return self._finished(
            self._turn.session.view(request), examples, empty.to_messages(), input
        )

    async def ainvoke(
        self,
        input: dict[str, Any],  # noqa: A002
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> PromptValue:
        """Render the prompt around the view, without blocking the event loop."""
        empty = await self._prompt.ainvoke({**input, self._place: [_PLACE]}, config, **kwargs)
        request, examples = self._request(empty.to_messages())
        view = await self._turn.session.aview(request)
        return self._finished(view, examples, empty.to_messages(), input)

    def _request(self, rendered: Sequence[BaseMessage]) -> tuple[Request, list[BaseMessage]]:
        """Return what surrounds the history, and the examples that stand in front of it."""
        turn = self._turn
        place = _place_in(rendered)
        count = turn.session.memory.counter_of(turn.session.memory.budget).message
        if place is None:
            around = sum(map(count, rendered))
            return replace(turn.request, incoming=(), overhead_tokens=around), []
        before, after = list(rendered[:place]), list(rendered[place + 1 :])
        examples = [message for message in before if role_of(message) != "system"]
        incoming = _named(after, turn.messages)
        if not self._is_history:
            incoming = [*turn.messages, *after]
        return (
            replace(
                turn.request,
                incoming=incoming,
                system=merged_system([m for m in before if role_of(m) == "system"]),
                overhead_tokens=turn.request.overhead_tokens + sum(map(count, examples)),
            ),
            examples,
        )

    def _finished(
        self,
        view: View,
        examples: list[BaseMessage],
        rendered: Sequence[BaseMessage],
        given: dict[str, Any],
    ) -> PromptValue:
        if _place_in(rendered) is None:
            filled = self._prompt.format_messages(**{**given, self._place: view.messages})
            return ChatPromptValue(messages=filled)
        front = [message for message in view.messages if role_of(message) == "system"]
        body = view.messages[len(front) :]
        return ChatPromptValue(messages=[*front, *examples, *body])


def _place_in(messages: Sequence[BaseMessage]) -> int | None:
    return next((i for i, message in enumerate(messages) if message.id == _PLACE.id), None)


def _named(rendered: list[BaseMessage], said: list[BaseMessage]) -> list[BaseMessage]:
    """Return rendered messages with the ids under which the same words will be stored."""
    ids = {str(message.content): message.id for message in said}
    return [
        message
        if message.id
        else with_id(message.model_copy(update={"id": ids.get(str(message.content))}))
        for message in rendered
    ]


def with_prompt(
    runnable: Runnable[Any, Any], fitted: Callable[[BaseChatPromptTemplate], Runnable[Any, Any]]
) -> tuple[Runnable[Any, Any] | None, bool]:
    """Return the chain with its first chat prompt replaced, and whether the prompt comes first."""
    if isinstance(runnable, BaseChatPromptTemplate):
        return fitted(runnable), True
    if isinstance(runnable, RunnableBindingBase):
        inner, is_first = with_prompt(runnable.bound, fitted)
        if inner is None:
            return None, False
        return cast("Runnable[Any, Any]", runnable.model_copy(update={"bound": inner})), is_first
    if isinstance(runnable, RunnableSequence):
        for index, step in enumerate(runnable.steps):
            inner, is_first = with_prompt(step, fitted)
            if inner is not None:
                steps = [*runnable.steps[:index], inner, *runnable.steps[index + 1 :]]
                return RunnableSequence(*steps, name=runnable.name), is_first and index == 0
    return None, False
