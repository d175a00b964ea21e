"""`TokenMemoryChatHistory`: a `BaseChatMessageHistory` whose messages fit the budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import in_thread
from langchain_tokenmem.core.argument_checks import as_budget, as_messages, checked
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.message_times import stamped
from langchain_tokenmem.core.messages import marked, role_of
from langchain_tokenmem.core.provider_format import CONTINUE_MESSAGE
from langchain_tokenmem.core.view import TokenUsage, View
from langchain_tokenmem.errors import StoreError
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, Pin
from langchain_tokenmem.storage.sessions import checked_id
from langchain_tokenmem.storage.transcript_store import TranscriptStore
from langchain_tokenmem.turns.conversation import TurnRequest
from langchain_tokenmem.turns.stored_session import SessionPins, StoredSession, with_time
from langchain_tokenmem.turns.turn import (
    acompact_now,
    after_reply,
    atake_turn,
    compact_now,
    take_turn,
)


class TokenMemoryChatHistory(BaseChatMessageHistory):
    """A LangChain chat history: `messages` fits the budget, `full_history()` has everything.

    Works wherever a `BaseChatMessageHistory` does, such as in `RunnableWithMessageHistory`, sync
    and async. The view does not change between the first read and the next `add_messages`, `clear`
    or `compact`, unless texts are edited, redacted or deleted meanwhile.

    A history does not see the prompt around it: pass its size as `overhead_tokens`, or use
    `with_token_memory`, which counts the whole request.

    Args:
        session_id: Id of the conversation.
        memory: Decides what is shown; default: a `TokenMemory()`.
        store: Keeps the transcript; default: `TranscriptStore()`, a SQLite file.
        user_id: Owner of the conversation.
        overhead_tokens: Tokens of the prompt around the history, the next input included.
        tools: Tool schemas that the model call will carry.
        budget: Takes precedence over the session's budget, and that over the memory's.

    Example:
        >>> from langchain_tokenmem import TranscriptStore
        >>> history = TokenMemoryChatHistory("s1", store=TranscriptStore("sqlite://"))
        >>> history.add_user_message("hi")
        >>> [message.content for message in history.messages]
        ['hi']
    """

    def __init__(
        self,
        session_id: str,
        *,
        memory: TokenMemory | None = None,
        store: TranscriptStore | None = None,
        user_id: str | None = None,
        overhead_tokens: int = 0,
        tools: Sequence[Any] | None = None,
        budget: TokenBudget | None = None,
    ) -> None:
        line = 'TokenMemoryChatHistory("s1", memory=TokenMemory(), store=TranscriptStore())'
        memory = TokenMemory() if memory is None else checked(memory, TokenMemory, "memory", line)
        store = (
            TranscriptStore() if store is None else checked(store, TranscriptStore, "store", line)
        )
        self._session = StoredSession(memory, store, checked_id(session_id), user_id)
        self._request = TurnRequest(
            {
                "tools": tools,
                "overhead_tokens": overhead_tokens,
                "budget": as_budget(budget),
            }
        )
        self._frozen: View | None = None
        self._revision: tuple[int, ...] = ()
        self._cleared: dict[str | None, tuple[BaseMessage, BaseMessage]] = {}
        self._reads: deque[datetime] = deque(maxlen=2)

    def __repr__(self) -> str:
        session = self._session
        parts = f"memory={session.memory!r}, store={session.store!r}, user_id={session.user_id!r}"
        return f"TokenMemoryChatHistory({session.session_id!r}, {parts})"

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """View of the conversation for the next model call; compacts first if it is due."""
        self._reads.append(self._session.memory.engine.now())
        return _before_input(self.view())

    async def aget_messages(self) -> list[BaseMessage]:
        """Return `messages` without blocking the event loop."""
        self._reads.append(self._session.memory.engine.now())
        return _before_input(await self._aview())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages to the transcript, all or none; known messages are not added again.

        New content under a known id supersedes the earlier one. If a reply is among them, a summary
        that is due is started; the time of a question added with its reply is that of the last
        read of `messages`.
        """
        given = self._with_times(self._without_view_forms(messages))
        self._frozen = None
        self._session.add(given)
        if _hold_reply(given):
            after_reply(self._session, self._request)

    aadd_messages = in_thread(add_messages)

    def _without_view_forms(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Return messages with a mark on those in the view's form: they are not edits.

        Those of a view before `clear` get their own words back.
        """
        given = as_messages(messages)
        if self._frozen is None:
            return [
                own[1] if (own := self._cleared.get(message.id)) and own[0] == message else message
                for message in given
            ]
        shown = {message.id: message for message in self._frozen.messages if message.id}
        return [
            marked(message, cut=True)
            if message.id in shown and shown[message.id] == message
            else message
            for message in given
        ]

    def _with_times(self, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Return messages with the time of a question that comes together with its reply.

        `RunnableWithMessageHistory` reads the history when the question is submitted, and adds both
        at the end, where it may first read again to find out what is new.
        """
        reads = [*self._reads]
        self._reads.clear()
        if not reads or not _hold_reply(messages):
            return messages
        return [stamped(m, reads[0]) if role_of(m) == "human" else m for m in messages]

    def clear(self) -> None:
        """Delete the messages and the state of this session."""
        name, user = self._session.session_id, self._session.user_id
        store = self._session.store
        if self._frozen is not None:
            shown = {message.id: message for message in self._frozen.messages}
            held = map(with_time, store.rows(name, user_id=user))
            self._cleared = {own.id: (shown[own.id], own) for own in held if own.id in shown}
        self._frozen = None
        store.clear(name, user_id=user)

    aclear = in_thread(clear)

    def edit(self, message_id: str, text: str) -> None:
        """Give a message another text; the earlier one is superseded.

        Raises:
            StoreError: When there is no such message.
        """
        self._frozen = None
        session = self._session
        found = session.store.get(session.session_id, message_id, user_id=session.user_id)
        if found is None:
            raise StoreError(
                f"{session.label} shows no message {message_id!r}, and nothing was edited."
            )
        (new,) = session.memory.stored_form([found.model_copy(update={"content": text})])
        session.store.edit(session.session_id, message_id, new, user_id=session.user_id)

    aedit = in_thread(edit)

    def regenerate(self) -> list[BaseMessage]:
        """Hide everything after the newest question, and return it, so as to answer again.

        `full_history(include_superseded=True)` still has it.
        """
        shown = self.full_history()
        asked = [n for n, message in enumerate(shown) if role_of(message) == "human"]
        return self._without(shown[asked[-1] + 1 :] if asked else [])

    aregenerate = in_thread(regenerate)

    def delete_turn(self, message_id: str) -> list[BaseMessage]:
        """Hide the turn of a message, its question and everything up to the next one; return it.

        Empty if there is no such message.
        """
        turn: list[BaseMessage] = []
        for message in self.full_history():
            if role_of(message) == "human":
                if any(one.id == message_id for one in turn):
                    break
                turn = []
            turn.append(message)
        return self._without(turn if any(one.id == message_id for one in turn) else [])

    adelete_turn = in_thread(delete_turn)

    def _without(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        self._frozen = None
        session, ids = self._session, [message.id or "" for message in messages]
        session.store.hide(session.session_id, ids, user_id=session.user_id)
        return messages

    def full_history(self, *, include_superseded: bool = False) -> list[BaseMessage]:
        """Return every message ever added, in order, after any number of compactions.

        The last message of each turn has the turn memory in
        `response_metadata["tokenmem"]["turn_memory"]`.

        Args:
            include_superseded: Return earlier wordings of edited messages too, as
                `TranscriptStore.messages` does.
        """
        session = self._session
        rows = session.store.rows(
            session.session_id, user_id=session.user_id, include_superseded=include_superseded
        )
        return session.with_turn_memories([with_time(row) for row in rows])

    afull_history = in_thread(full_history)

    def usage(self) -> TokenUsage:
        """Return the tokens of the next call, in total and by part."""
        return self.view().usage

    async def ausage(self) -> TokenUsage:
        """Do the same as `usage` without blocking the event loop."""
        return (await self._aview()).usage

    def compact(self, instruction: str | None = None) -> MemoryState:
        """Fold about half of the request into the summary now.

        Args:
            instruction: Instruction for this summary.

        Returns:
            The state of the session afterwards.
        """
        self._frozen = None
        return compact_now(self._session, replace(self._request, instruction=instruction))

    async def acompact(self, instruction: str | None = None) -> MemoryState:
        """Do the same as `compact` without blocking the event loop."""
        self._frozen = None
        request = replace(self._request, instruction=instruction)
        return await acompact_now(self._session, request)

    def set_mode(self, mode: str | None) -> None:
        """Switch the session to another mode of working notes; notes of other modes are kept.

        Args:
            mode: Name of the mode; None for no mode.

        Raises:
            ConfigurationError: When there is no such mode; the message lists them.
        """
        self._session.set_mode(mode or "")
        self._frozen = None

    aset_mode = in_thread(set_mode)

    def pin(self, what: str | int) -> Pin:
        """Pin a text, or the message with a number: it is in every request from now on.

        It appears in the first human message, because a history does not see the prompt around it;
        with `with_token_memory`, or if the history has a system message, after the system text.

        It survives summaries, a change of model or mode, and restarts. All pins together take at
        most `shares.pinned` of the limit.

        Args:
            what: The text, or the message's number, counted from 1.

        Returns:
            The pin, with its `id`.

        Raises:
            ConfigurationError: When there is no such message, or the text cannot be pinned.
        """
        self._frozen = None
        return self._pins.pin(what)

    apin = in_thread(pin)

    def unpin(self, name: str | int) -> bool:
        """Unpin by id, text or number of the message; return whether there was such a pin."""
        self._frozen = None
        return self._pins.unpin(name)

    aunpin = in_thread(unpin)

    def pins(self) -> list[Pin]:
        """Return the pins of this session, oldest first."""
        return self._pins.pins()

    apins = in_thread(pins)

    @property
    def _pins(self) -> SessionPins:
        session = self._session
        before_store = session.memory.before_store
        return SessionPins(
            session.store, session.session_id, session.user_id, before_store=before_store
        )

    def view(self) -> View:
        """Return the frozen view with its usage and warnings."""
        session = self._session
        revision = session.store.revision(session.session_id, user_id=session.user_id)
        if self._frozen is None or self._is_outdated(revision):
            self._frozen = take_turn(session, self._request).view
        self._revision = revision
        return self._frozen

    async def _aview(self) -> View:
        session = self._session
        revision = await session.store.arevision(session.session_id, user_id=session.user_id)
        if self._frozen is None or self._is_outdated(revision):
            self._frozen = (await atake_turn(session, self._request)).view
        self._revision = revision
        return self._frozen

    def _is_outdated(self, revision: tuple[int, ...]) -> bool:
        """Return whether texts were removed since the last read; a new session has none to lose."""
        return bool(self._revision) and revision != self._revision


def _hold_reply(messages: Sequence[BaseMessage]) -> bool:
    return any(role_of(message) == "ai" for message in messages)


def _before_input(view: View) -> list[BaseMessage]:
    """Return the view's messages without a closing one: the next input follows the history."""
    is_closed = bool(view.messages) and view.messages[-1] is CONTINUE_MESSAGE
    return view.messages[:-1] if is_closed else list(view.messages)
