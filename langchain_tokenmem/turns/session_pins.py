"""Pins of a session in a transcript store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import described
from langchain_tokenmem.core.before_store import BeforeStore, text_as_kept
from langchain_tokenmem.core.messages import role_of, speaker_of, spoken_messages, text_of
from langchain_tokenmem.core.pins import new_pin, pin_named
from langchain_tokenmem.core.references import reference
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.notes_state import Author, Pin
from langchain_tokenmem.state import MemoryState, new_state
from langchain_tokenmem.turns.conversation import ATTEMPTS

if TYPE_CHECKING:
    from langchain_tokenmem.storage.transcript_store import TranscriptStore

T = TypeVar("T")


@dataclass(frozen=True)
class SessionPins:
    """The pins of a session.

    Attributes:
        store: Keeps the transcript and the state.
        session_id: Names the conversation.
        user_id: Owner of the session; checked by the store when it is given.
        by: Who pins.
        before_store: Changes texts before they are pinned.
    """

    store: TranscriptStore
    session_id: str
    user_id: str | None = None
    by: Author = "application"
    before_store: BeforeStore | None = None

    def pin(self, what: str | int) -> Pin:
        """Pin a text, or the message of a number, and return the pin; twice is once.

        Raises:
            ConfigurationError: When there is no such message, or the text cannot be pinned.
        """
        if isinstance(what, str):
            text, source = text_as_kept(self.before_store, what), ""
        elif type(what) is int:
            message = self._message(what)
            speaker = speaker_of(role_of(message), message.name)
            text, source = f"{speaker}: {text_of(message)}", reference(message.id)
        else:
            raise ConfigurationError(
                f"{described(what)} cannot be pinned; a pin is a text, or the number of a message."
            )

        def pinned(state: MemoryState) -> tuple[MemoryState, Pin]:
            pin = new_pin(text, by=self.by, source=source)
            known = pin_named(state.get("pins", ()), pin["id"])
            if known is not None and (known["by"] == "application" or self.by == "tool"):
                return state, known
            others = [each for each in state.get("pins", ()) if each["id"] != pin["id"]]
            return {**state, "pins": [*others, pin]}, pin

        return self._change(pinned)

    def unpin(self, name: str | int) -> bool:
        """Unpin by id, text or number of the message; return whether there was such a pin."""
        source = "" if isinstance(name, str) else reference(self._message(name).id)

        def without(state: MemoryState) -> tuple[MemoryState, bool]:
            held = state.get("pins", [])
            found = (
                pin_named(held, text_as_kept(self.before_store, name))
                if isinstance(name, str)
                else next((pin for pin in held if pin["source"] == source), None)
            )
            if found is None:
                return state, False
            return {**state, "pins": [pin for pin in held if pin is not found]}, True

        return self._change(without)

    def pins(self) -> list[Pin]:
        """Return the pins, oldest first."""
        held, _rows = self.store.conversation(self.session_id, user_id=self.user_id)
        return [*(held.state or new_state()).get("pins", ())]

    def _change(self, change: Callable[[MemoryState], tuple[MemoryState, T]]) -> T:
        """Store a changed state, on what others have committed meanwhile."""
        for _ in range(ATTEMPTS):
            held, _rows = self.store.conversation(self.session_id, user_id=self.user_id)
            before = held.state or new_state()
            state, outcome = change(before)
            if state is before:
                return outcome
            if self.store.save_state(self.session_id, state, expected=held.version):
                return outcome
        raise StoreError(
            f"Session {self.session_id!r} was changed by others {ATTEMPTS} times; its pins are as "
            f"they were. Try again when fewer writers are at work."
        )

    def _message(self, number: int) -> BaseMessage:
        rows = self.store.rows(self.session_id, user_id=self.user_id)
        spoken = spoken_messages([row.message for row in rows])
        if not 1 <= number <= len(spoken):
            raise ConfigurationError(
                f"There is no message {number}: session {self.session_id!r} has {len(spoken)}."
            )
        return spoken[number - 1]
