"""One model call of an agent: the turn before it, the step after it, and what overflows."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage

from langchain_tokenmem.adapters.run_context import has_channel
from langchain_tokenmem.adapters.run_metadata import runs_with
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.chat_models import MIN_CONTEXT_WINDOW, unwrap_model
from langchain_tokenmem.core.edited_words import with_said, without_said
from langchain_tokenmem.core.tool_calls import offers_tool
from langchain_tokenmem.core.turn_memory import without_echo
from langchain_tokenmem.core.working_notes.mode_profiles import ModeProfile
from langchain_tokenmem.events import MemoryEvent
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
        event = MemoryEvent(
            kind="overflow_retry",
            reason="limit",
            tokens_before=result.view.usage.input_tokens,
            tokens_after=smaller.limit,
        )
        self.thread.memory.engine.tell("end", event)
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


@dataclass(frozen=True)
class FittedRequest:
    """The request that the model gets, and the metadata of its run."""

    request: ModelRequest[Any]
    metadata: dict[str, Any]

    def send(self, handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]) -> Any:
        """Call the model."""
        with runs_with(self.metadata):
            return handler(self.request)

    async def asend(self, handler: Callable[[ModelRequest[Any]], Awaitable[Any]]) -> Any:
        """Call the model."""
        with runs_with(self.metadata):
            return await handler(self.request)


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


_CHANNELS_OF_OTHERS = (
    "branch:to:SummarizationMiddleware.before_model",
    "_summarization_event",
)
"""Channels of an agent with LangChain's summarizer, under its usual name, and with deepagents'."""


def is_summarized_by_another(request: ModelRequest[Any]) -> bool:
    """Return whether LangChain's or deepagents' summarizer is in the agent's middleware.

    Under another name it is known once it has replaced the oldest messages.
    """
    first = request.messages[:1]
    return has_channel(*_CHANNELS_OF_OTHERS) or any(
        m.additional_kwargs.get("lc_source") == "summarization" for m in first
    )


def tokens_added_behind(request: ModelRequest[Any], count_text: Callable[[str], int]) -> int:
    """Return the tokens that deepagents' memory and skills add to the system text behind us."""
    added = [*_memory_files(request), *_skills(request)]
    return count_text("\n\n".join(added)) if added else 0


def _memory_files(request: ModelRequest[Any]) -> list[str]:
    """Return the text of `MemoryMiddleware`, in parts; nothing if it is in the system text."""
    contents: Any = request.state.get("memory_contents")
    if not isinstance(contents, dict) or "<agent_memory>" in _system_text(request):
        return []
    frame = _deepagents("memory", "MEMORY_SYSTEM_PROMPT")
    return [frame, *(f"{name}\n{contents[name]}" for name in contents)]


def _skills(request: ModelRequest[Any]) -> list[str]:
    """Return at least the text of `SkillsMiddleware`, in parts."""
    skills: Any = request.state.get("skills_metadata")
    frame = _deepagents("skills", "SKILLS_SYSTEM_PROMPT")
    if not (frame and isinstance(skills, list)) or frame[:60] in _system_text(request):
        return []
    errors: Any = request.state.get("skills_load_errors") or ()
    # A line names the file and a few words around the values.
    lines = ["\n".join([*map(str, one.values()), *one, "for full instructions"]) for one in skills]
    return [frame, *lines, *map(str, errors)]


def _system_text(request: ModelRequest[Any]) -> str:
    return request.system_message.text if request.system_message else ""


def _deepagents(module: str, name: str) -> str:
    """Return a text of deepagents' middleware; it is imported where that middleware runs."""
    return str(getattr(sys.modules.get(f"deepagents.middleware.{module}"), name, ""))


def writer_of(request: ModelRequest[Any]) -> Callable[[Any], None] | None:
    """Return the writer of the agent's custom stream; None outside of an agent."""
    return request.runtime.stream_writer if request.runtime else None


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


_RETRY_SHARE = 0.6
"""Share of a refused request that the second one may have: the provider counted otherwise than
we did, and by how much is not known."""

OVERFLOW_MESSAGES: tuple[tuple[str, str], ...] = (
    ("OpenAI, vLLM, DeepSeek, Azure", r"maximum context length"),
    ("OpenAI", r"context_length_exceeded"),
    ("OpenAI Responses", r"exceeds? the context window"),
    ("Anthropic", r"prompt is too long"),
    ("Anthropic", r"input length and .?max_tokens.? exceed context limit"),
    ("Gemini, Vertex AI", r"input token count.{0,40}exceeds the maximum number of tokens"),
    ("Bedrock", r"input is too long for requested model"),
    ("Bedrock", r"too many (?:input )?tokens"),
    ("Mistral", r"too large for model with \d+ maximum context"),
    ("Groq", r"reduce the length of the messages"),
    ("xAI", r"maximum prompt length is"),
    ("Cohere", r"too many tokens: total number of tokens in the prompt"),
    ("llama.cpp", r"exceeds the available context size"),
    ("Ollama", r"exceeds (?:the )?(?:maximum )?context (?:length|size)"),
    ("Together, Fireworks", r"inputs? tokens? \+ max_new_tokens must be"),
    ("OpenRouter", r"context length is only"),
)
"""Providers and their words for an overflow: regular expressions, in any case of letters."""

_RATE_LIMIT = re.compile(r"rate.?limit|tokens per (?:min|day)|quota", re.IGNORECASE)
_OVERFLOW = re.compile(
    "|".join(f"(?:{words})" for _, words in OVERFLOW_MESSAGES), re.IGNORECASE | re.DOTALL
)


def is_overflow(error: BaseException) -> bool:
    """Return whether a provider refused a request because it is too long.

    A rate limit does not count, even if its message mentions too many tokens: waiting helps there,
    shortening does not.

    Example:
        >>> is_overflow(ValueError("This model's maximum context length is 8192 tokens."))
        True
        >>> is_overflow(ValueError("Rate limit: too many tokens per minute"))
        False
    """
    if isinstance(error, ContextOverflowError):
        return True
    words = str(error)
    return bool(_OVERFLOW.search(words)) and not _RATE_LIMIT.search(words)


def smaller_budget(budget: TokenBudget, sent: int) -> TokenBudget | None:
    """Return the budget of the request after a refused one; None if it cannot be smaller.

    Args:
        budget: The budget of the refused request.
        sent: Tokens of the refused request, as they were counted here.
    """
    goal = int(_RETRY_SHARE * sent)
    window = max(MIN_CONTEXT_WINDOW, round(goal / (1 - (budget.margin or 0))))
    if window >= sent:
        return None
    shares = replace(budget.shares, result_tokens=None)
    return replace(budget, context_window=window, reserve_output=0, shares=shares)
