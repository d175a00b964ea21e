"""One model call of an agent: the turn of the memory before it, and the step after its reply."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tokenmem.adapters.agents.overflow import smaller_budget
from langchain_tokenmem.core.chat_models import unwrap_model
from langchain_tokenmem.core.edited_words import with_said, without_said
from langchain_tokenmem.core.tool_calls import offers_tool
from langchain_tokenmem.core.turn_memory_text import without_echo
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.turns.conversation import TurnRequest, TurnResult
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.turn import aafter_reply, after_reply, atake_turn, take_turn

OVERFLOW_INSTRUCTION = (
    "The provider refused the request as too long: keep only what the next steps need."
)
"""Instruction of the compaction that a refusal forces."""


@dataclass(frozen=True)
class ModelCall:
    """The agent's request, and the turn of the memory before it."""

    request: ModelRequest[Any]
    thread: GraphThread
    turn: TurnRequest

    def run(self) -> TurnResult | None:
        """Take the turn."""
        return take_turn(self.thread, self.turn)

    async def arun(self) -> TurnResult | None:
        """Do the same as `run` without blocking the event loop."""
        return await atake_turn(self.thread, self.turn)

    def tighter(self, result: TurnResult) -> ModelCall | None:
        """Return the turn after a provider found the request too long; None if it cannot shrink."""
        smaller = smaller_budget(self.thread.memory.budget, result.view.usage.input_tokens)
        if smaller is None:
            return None
        turn = replace(
            self.turn,
            options={**self.turn.options, "budget": smaller},
            instruction=self.turn.instruction or OVERFLOW_INSTRUCTION,
        )
        return replace(self, thread=replace(self.thread, state=result.state), turn=turn)

    def answered(self, result: TurnResult, response: ModelResponse[Any]) -> AnsweredCall:
        """Return the step after the reply: the agent's tools run, or the user reads it."""
        messages = [*self.thread.messages, *response.result]
        thread = replace(self.thread, messages=messages, state=result.state)
        return AnsweredCall(self.request, thread, replace(self.turn, instruction=None))


class AnsweredCall(ModelCall):
    """The step of the memory after the reply: it starts the summary that the next call needs."""

    def run(self) -> None:
        """Start the summary that is due."""
        after_reply(self.thread, self.turn)

    async def arun(self) -> None:
        """Do the same as `run` without blocking the event loop."""
        await aafter_reply(self.thread, self.turn)


def with_tools_of_mode(request: ModelRequest[Any], mode: ModeProfile | None) -> ModelRequest[Any]:
    """Return the request with the tools that its mode names; with all where it names none."""
    if mode is None or not mode.tools:
        return request
    offered = [tool for tool in request.tools if any(offers_tool([tool], t) for t in mode.tools)]
    return request.override(tools=offered)


def without_copies(call: ModelCall, response: ModelResponse[Any]) -> ModelResponse[Any]:
    """Return the response without times and blocks in the form of the memory's own."""
    messages = call.thread.memory.without_stamps(response.result)
    return replace(response, result=[*map(without_echo, messages)])


KEPT_BY_PROVIDER = (
    "The model is set to use_previous_response_id: the provider goes on from its own copy of "
    "the conversation, which is not compacted. Turn it off."
)


ANOTHER_SUMMARIZER = (
    "Another summarizer in the agent's middleware replaces messages before this memory sees them. "
    "Leave it out. create_deep_agent brings one: "
    'TokenMemoryMiddleware(memory, name="SummarizationMiddleware") takes its place.'
)


def is_summarized_by_another(request: ModelRequest[Any]) -> bool:
    """Return whether LangChain's or deepagents' summarizer has replaced the oldest messages."""
    first = request.messages[:1]
    return any(m.additional_kwargs.get("lc_source") == "summarization" for m in first)


def tokens_added_behind(request: ModelRequest[Any], count_text: Callable[[str], int]) -> int:
    """Return the tokens that deepagents' `MemoryMiddleware` adds to the system text behind us."""
    contents = request.state.get("memory_contents")
    system = request.system_message
    if not isinstance(contents, dict) or (system and "<agent_memory>" in system.text):
        return 0
    module = sys.modules.get("deepagents.middleware.memory")
    frame = getattr(module, "MEMORY_SYSTEM_PROMPT", "")
    return count_text("\n\n".join([frame, *(f"{name}\n{contents[name]}" for name in contents)]))


def is_kept_by_provider(model: BaseChatModel, result: TurnResult) -> bool:
    """Return whether the provider keeps a conversation that the view no longer shows."""
    decided = result.state["summary"] or result.state["cuts"]
    return bool(decided) and bool(getattr(unwrap_model(model), "use_previous_response_id", False))


def messages_of(request: ModelRequest[Any]) -> list[BaseMessage]:
    """Return the request's messages; those that others cleared for it carry what they said."""
    return with_said(request.messages, request.state.get("messages") or ())


def system_and_messages(
    shown: Sequence[BaseMessage],
) -> tuple[SystemMessage | None, list[BaseMessage]]:
    """Return a view's system message and its other messages, as a request has them."""
    messages = [*map(without_said, shown)]
    first = messages[0] if messages else None
    return (first, messages[1:]) if isinstance(first, SystemMessage) else (None, messages)
