"""One model call of an agent: the turn before it, and what others add to it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, TypeVar

from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import BaseMessage

from langchain_tokenmem.adapters.run_context import has_channel
from langchain_tokenmem.core.covered import with_originals
from langchain_tokenmem.core.messages import (
    call_ids,
    result_ids,
    role_of,
    same_objects,
    well_formed_message,
)
from langchain_tokenmem.core.provider_format import fit_message
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.turns.conversation import TurnRequest, TurnResult
from langchain_tokenmem.turns.graph_thread import GraphThread
from langchain_tokenmem.turns.overflow import tighter_request

T = TypeVar("T")

Added = Mapping[str, Sequence[BaseMessage]]
"""Messages that are in one request only, by the id of the conversation's message after them."""

MOST_ADDED = 0.5
"""Share of the limit that these may have. More are a conversation that other middleware rewrote:
the memory then folds it like any other."""


@dataclass(frozen=True)
class ModelCall:
    """The agent's request, and the turn of the memory before it.

    Attributes:
        request: The request.
        thread: The conversation.
        turn: The turn.
        added: What other middleware added to the request; None if it changed nothing.
    """

    request: ModelRequest[Any]
    thread: GraphThread
    turn: TurnRequest
    added: Added | None

    def tighter(self, result: TurnResult) -> ModelCall | None:
        """Return the turn after a provider found the request too long; None if it cannot shrink."""
        turn = tighter_request(self.thread.memory, self.turn, result.view)
        if turn is None:
            return None
        return replace(self, thread=replace(self.thread, state=result.state), turn=turn)


def conversation_in(
    request: ModelRequest[Any], memory: TokenMemory
) -> tuple[Sequence[Any], Added | None, int]:
    """Return the conversation in a request, and what other middleware added, with its tokens.

    A profile, a document or an example that is put before a message for one call is not part of
    the conversation: it is neither folded nor stored. What follows the conversation's last message
    stays, as the newest message, and so do tool calls and their results.
    """
    held = request.state.get("messages") or ()
    if same_objects(request.messages, held):
        return request.messages, None, 0
    own = {message.id for message in held if message.id}

    def is_added(message: BaseMessage) -> bool:
        is_plain = not (call_ids(message) or result_ids(message))
        return message.id not in own and role_of(message) in {"human", "ai"} and is_plain

    kept: list[Any] = []
    new: list[Any] = []
    added: dict[str, list[BaseMessage]] = {}
    for is_new, run in groupby(request.messages, is_added):
        if is_new:
            new = [*run]
            continue
        messages = [*run]
        after = next((message.id for message in messages if message.id in own), None)
        if after and new:
            added[after], new = new, []
        kept += [*new, *messages]
        new = []
    count = memory.engine.counter_of(memory.budget).message
    profile = memory.engine.profile_of(memory.budget)
    added = {
        key: [fit_message(well_formed_message(one), profile, []) for one in messages]
        for key, messages in added.items()
    }
    tokens = sum(map(count, chain.from_iterable(added.values())))
    if tokens > MOST_ADDED * memory.limit_of({}):
        return with_originals(request.messages, held), {}, 0
    # Messages that others cleared for this request carry their original content.
    return with_originals([*kept, *new], held), added, tokens


def with_added(
    shown: Iterable[BaseMessage], conversation: Sequence[BaseMessage], added: Added
) -> list[BaseMessage]:
    """Return the messages of a view, with what other middleware added.

    It comes before the message that followed it, or before the next one that is shown, and never
    between a tool call and its results.

    Args:
        shown: The messages of the view.
        conversation: The messages that it shows.
        added: What was added.
    """
    places = {message.id: place for place, message in enumerate(conversation)}
    whole = [*shown]
    for key, messages in added.items():
        after = (n for n, one in enumerate(whole) if places.get(one.id, -1) >= places[key])
        at = next(after, len(whole))
        while at and at < len(whole) and role_of(whole[at]) == "tool":
            at -= 1
        whole[at:at] = messages
    return whole


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

    Under another name it is recognized once it has replaced the oldest messages.
    """
    first = request.messages[:1]
    return has_channel(*_CHANNELS_OF_OTHERS) or any(
        m.additional_kwargs.get("lc_source") == "summarization" for m in first
    )


STATE_ADDED_LATER = frozenset({"memory_contents", "skills_metadata"})
"""Keys of an agent's state from which deepagents' memory and skills add to the system text."""


def tokens_of_later_text(request: ModelRequest[Any], count_text: Callable[[str], int]) -> int:
    """Return an upper bound of the tokens that deepagents' memory and skills add after us.

    A text that is in the system text already counts there.
    """
    state: Any = request.state
    system = request.system_message.text if request.system_message else ""
    added: list[str] = []
    contents, skills = state.get("memory_contents"), state.get("skills_metadata")
    if isinstance(contents, dict) and "<agent_memory>" not in system:
        added += [_deepagents("memory", "MEMORY_SYSTEM_PROMPT")]
        added += [f"{name}\n{contents[name]}" for name in contents]
    frame = _deepagents("skills", "SKILLS_SYSTEM_PROMPT")
    if frame and isinstance(skills, list) and frame[:60] not in system:
        # A line names the file and a few words around the values.
        words = "for full instructions"
        lines = ["\n".join([*map(str, one.values()), *one, words]) for one in skills]
        added += [frame, *lines, *map(str, state.get("skills_load_errors") or ())]
    return count_text("\n\n".join(added)) if added else 0


def _deepagents(module: str, name: str) -> str:
    """Return a text of deepagents' middleware; it is imported if that middleware runs."""
    return str(getattr(sys.modules.get(f"deepagents.middleware.{module}"), name, ""))
