"""A session of a transcript store as the conversation of a turn.

States are committed by compare-and-swap on their version; a lease keeps two processes from making
the same summary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import ensure_config

from langchain_tokenmem.background import waiting_at_most
from langchain_tokenmem.core.argument_checks import (
    BeforeStore,
    as_messages,
    described,
    text_as_kept,
)
from langchain_tokenmem.core.covered import without_words_of
from langchain_tokenmem.core.messages import (
    MARKS,
    digest_of,
    marks_of,
    reference,
    role_of,
    speaker_of,
    spoken_messages,
    text_of,
    with_ids,
)
from langchain_tokenmem.core.pins import new_pin, pin_named
from langchain_tokenmem.core.thread_names import check_characters
from langchain_tokenmem.core.turns import covered_turn, with_turn_memories
from langchain_tokenmem.core.working_notes.mode_profiles import new_modes_state
from langchain_tokenmem.errors import ConfigurationError, StoreError
from langchain_tokenmem.events import EventSource
from langchain_tokenmem.memory.call_counts import in_force_from
from langchain_tokenmem.memory.current_words import (
    noted_words,
    with_current_words,
)
from langchain_tokenmem.memory.finished_summaries import rebase_summary
from langchain_tokenmem.memory.recalled_blocks import ConversationScope
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.memory.working_notes import with_covered_notes
from langchain_tokenmem.state import Author, MemoryState, Pin, new_state
from langchain_tokenmem.turns.backlog import beginnings
from langchain_tokenmem.turns.conversation import ATTEMPTS, Snapshot, TurnRequest

if TYPE_CHECKING:
    from langchain_tokenmem.storage.transcript_store import TranscriptStore
    from langchain_tokenmem.storage.transcripts import TranscriptRow


T = TypeVar("T")


@dataclass(frozen=True)
class SessionPins:
    """The pins of a session.

    Attributes:
        store: Keeps the transcript and the state.
        session_id: Id of the conversation.
        user_id: Owner of the session; checked by the store if given.
        by: Who pins.
        before_store: Changes texts before they are pinned.
    """

    store: TranscriptStore
    session_id: str
    user_id: str | None = None
    by: Author = "application"
    before_store: BeforeStore | None = None

    def pin(self, what: str | int) -> Pin:
        """Pin a text, or the message with a number, and return the pin; a repeat changes nothing.

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
                f"{described(what)} cannot be pinned; a pin is a string or the number of a message."
            )

        def pinned(state: MemoryState) -> tuple[MemoryState, Pin]:
            pin = new_pin(text, by=self.by, source=source)
            known = pin_named(state.get("pins", ()), pin["id"])
            if known is not None and (known["by"] == "application" or self.by == "tool"):
                return state, known
            others = [each for each in state.get("pins", ()) if each["id"] != pin["id"]]
            return {**state, "pins": [*others, pin]}, pin

        return _changed(self, pinned, "pins are as they were")

    def unpin(self, name: str | int) -> bool:
        """Unpin by id, text or message number; return whether there was such a pin."""
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

        return _changed(self, without, "pins are as they were")

    def pins(self) -> list[Pin]:
        """Return the pins, oldest first."""
        held = self.store.state(self.session_id, user_id=self.user_id)
        return [*(held.state or new_state()).get("pins", ())]

    def _message(self, number: int) -> BaseMessage:
        rows = self.store.rows(self.session_id, user_id=self.user_id)
        spoken = spoken_messages([row.message for row in rows])
        if not 1 <= number <= len(spoken):
            raise ConfigurationError(
                f"There is no message {number}: session {self.session_id!r} has {len(spoken)}."
            )
        return spoken[number - 1]


def _changed(
    session: SessionPins | StoredSession,
    change: Callable[[MemoryState], tuple[MemoryState, T]],
    kept: str,
) -> T:
    """Change the state of a session, on top of what others have committed meanwhile.

    Args:
        session: The session and its store.
        change: Returns the state with the change, and its outcome.
        kept: What the error says about the session.
    """
    store, name, user = session.store, session.session_id, session.user_id
    for _ in range(ATTEMPTS):
        held = store.state(name, user_id=user)
        before = held.state or new_state()
        state, outcome = change(before)
        if state is before or store.save_state(name, state, expected=held.version, user_id=user):
            return outcome
    raise StoreError(
        f"Session {name!r} was changed by others {ATTEMPTS} times; its {kept}. Try again when "
        f"fewer writers are at work."
    )


_POLL_S = 0.1
"""Seconds between two checks for another process's summary, for a call at the hard limit."""


@dataclass(frozen=True)
class StoredSession:
    """A conversation in a transcript store.

    Attributes:
        memory: Decides what is shown.
        store: Keeps the transcript and the state.
        session_id: Id of the conversation.
        user_id: Owner of the session; checked by the store if given.

    Raises:
        ScopeError: When an id contains a control character, as those of sub-graphs do.
    """

    memory: TokenMemory
    store: TranscriptStore
    session_id: str
    user_id: str | None = None

    def __post_init__(self) -> None:
        for name, what in ((self.session_id, "session_id"), (self.user_id, "user_id")):
            if isinstance(name, str):  # the store reports anything else
                check_characters(name, what)

    @property
    def label(self) -> str:
        """Name of the session in the log."""
        return f"Session {self.session_id!r}"

    @property
    def key(self) -> Hashable:
        """Key of its background summary."""
        return (id(self.store), self.session_id)

    def configured(self) -> StoredSession:
        """Return the session with its own settings, or else those of its user."""
        settings = self.store.settings(self.session_id, user_id=self.user_id)
        memory = self.memory
        if memory.engine.source is None:
            run = getattr(ensure_config().get("callbacks"), "parent_run_id", None)
            run_id = None if run is None else str(run)
            memory = memory.in_conversation(
                EventSource(session=self.session_id, user=self.user_id, run_id=run_id)
            )
        memory = memory.with_settings(settings)
        return self if memory is self.memory else replace(self, memory=memory)

    def add(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages to the transcript, as returned by the memory's `before_store`.

        Text that a model wrote in the form of the memory's own blocks is left out.
        """
        given = self.memory.without_copies(as_messages(messages))
        with waiting_at_most(self.memory.max_wait_s):
            stored = self.memory.stored_form(given)
            now = self.memory.engine.now()
            self.store.add(self.session_id, stored, user_id=self.user_id, now=now)

    def set_mode(self, name: str) -> None:
        """Switch the session to another mode, from its next call on; an empty name for none.

        Raises:
            ConfigurationError: When there is no such mode.
            StoreError: When other writers repeatedly committed first.
        """
        annotations = self.memory.engine.annotations
        annotations.mode_named(name)

        def switched(state: MemoryState) -> tuple[MemoryState, None]:
            now = annotations.mode_of(state.get("modes"))
            modes = state.get("modes") or new_modes_state(now.name if now else "")
            return {**state, "modes": {**modes, "chosen": name}}, None

        _changed(self, switched, "mode is as it was")

    def load(self, request: TurnRequest, previous: Snapshot | None = None) -> Snapshot:
        """Read the state, the messages that a view needs, and the session's own budget."""
        held, rows = self.store.conversation(self.session_id, user_id=self.user_id)
        stored = held.state or new_state()
        current = self._with_current_words(stored, held.edits)
        state = self._with_covered_notes(self._with_turns(current), request)
        if previous is not None:
            made = previous.state["blocks"].keys() - previous.stored["blocks"].keys()
            blocks = {key: previous.state["blocks"][key] for key in made}
            state = {**state, "blocks": {**blocks, **stored["blocks"]}} if blocks else state
        return Snapshot(
            request=request,
            messages=[*map(with_time, rows), *request.incoming],
            state=state,
            stored=stored,
            options={**request.options, "budget": request.options.get("budget") or held.budget},
            version=held.version,
            scope=ConversationScope(self.session_id, self.user_id),
        )

    def with_turn_memories(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the whole transcript, in which each turn's last message reports what it did.

        Superseded wordings, which come before the current ones, report nothing.
        """
        current = [message for message in messages if "superseded" not in marks_of(message)]
        reading = self.memory.engine.annotations.turns
        reporting = {message.id: message for message in with_turn_memories(current, reading)}
        return [m if "superseded" in marks_of(m) else reporting[m.id] for m in messages]

    def _with_current_words(self, state: MemoryState, edits: str) -> MemoryState:
        """Return a state with the current words of the transcript.

        The transcript is read once after each edit.
        """
        is_empty = state["summary"] is None and not noted_words(state) and not state["blocks"]
        if is_empty or state.get("edits", "") == edits:
            return state
        count = self.memory.engine.counter_of(self.memory.budget).text
        rows = self.store.rows(self.session_id, user_id=self.user_id, include_superseded=True)
        gone = [row for row in rows if "superseded" in marks_of(row.message)]
        shown = [row for row in rows if "superseded" not in marks_of(row.message)]
        hides = not {row.seq for row in gone} <= {row.seq for row in shown}
        state = with_current_words(
            [row.message for row in shown],
            state,
            count,
            hides=hides,
            gone=[row.message.id or "" for row in gone],
        )
        return {**state, "edits": edits}

    def _with_turns(self, state: MemoryState) -> MemoryState:
        """Return a state that records what the covered part of its turn has done.

        A state without turn memories does not: the rows of that turn are read once.
        """
        summary = state["summary"]
        if summary is None or "turns" in state:
            return state
        pointer = summary["covers_to"]
        covered = self.store.turn_up_to(self.session_id, pointer, user_id=self.user_id)
        reading = self.memory.engine.annotations.turns
        return {**state, "turns": covered_turn(covered, reading)}

    def _with_covered_notes(self, state: MemoryState, request: TurnRequest) -> MemoryState:
        """Return a state with notes on what was covered before a mode was on."""
        read = partial(self.store.messages, self.session_id, user_id=self.user_id)
        settings = self.memory.engine.annotations
        return with_covered_notes(read, state, settings, request.options.get("mode"))

    def load_after_reply(self, request: TurnRequest) -> Snapshot:
        """Read the session including the reply, for which nothing is recalled."""
        return replace(self.load(request), scope=None)

    def commit(self, snapshot: Snapshot, state: MemoryState) -> bool:
        """Store a state; return False if another writer stored one since the snapshot.

        A state whose pointer names a message that is not stored yet is used for this call only,
        and so are notes on words that `before_store` removes.
        """
        unstored = {message.id for message in snapshot.request.incoming}
        summary = state["summary"]
        if state is snapshot.stored or (summary and summary["covers_to"] in unstored):
            return True
        named = with_ids(snapshot.messages)
        incoming = named[len(named) - len(snapshot.request.incoming) :]
        stored = self.memory.stored_form(incoming)
        pairs = zip(incoming, stored, strict=True)
        changed = {one.id or "" for one, kept in pairs if digest_of(one) != digest_of(kept)}
        if changed:
            state = without_words_of(changed, state)
        return self._save(state, snapshot)

    def summarize(self, snapshot: Snapshot, wait_s: float) -> None:
        """Make the due summary and commit it.

        Messages of this turn are not stored yet: they only count, and are never covered.
        """
        if len(snapshot.messages) == len(snapshot.request.incoming):
            return  # nothing is stored yet, not even the row that holds the lease
        owner = uuid4().hex
        if not self._take_lease(owner, wait_s, snapshot.version):
            return
        try:
            self._catch_up(self.load(self._without_incoming(snapshot.request)), owner)
        finally:
            self.store.release(self.session_id, owner, user_id=self.user_id)

    def _catch_up(self, begun: Snapshot, owner: str) -> None:
        """Make the due summary, part by part if there is a backlog, and commit each part."""
        jobs, limit = self.memory.background_summaries, self.memory.limit_of(begun.options)
        for part in beginnings(begun.messages, begun.state, limit):
            state = self.memory.compact_behind(part, begun.state, **begun.options)
            if state is not begun.state:
                committed = self._commit_summary(begun, state)
                if committed is None:
                    return
                begun = committed
            if len(part) < len(begun.messages):
                jobs.extend(self.key)
                if not self.store.lease(
                    self.session_id, owner, jobs.timeout_s, user_id=self.user_id
                ):
                    return

    def _commit_summary(self, begun: Snapshot, after: MemoryState) -> Snapshot | None:
        """Commit a summary on top of the current state; turns may have changed it meanwhile.

        Returns:
            The snapshot with the committed state; None if the summary is dropped: after a `clear`,
            or another summary.
        """
        now, state = begun, _under_way(begun, after)
        for _ in range(ATTEMPTS):
            if self._save(state, now):
                return replace(begun, state=state, stored=state, version=now.version + 1)
            now = self.load(begun.request)
            made_of = begun.messages
            carried = rebase_summary(now.messages, begun.state, after, now.state, made_of)
            if carried is None:
                return None
            state = _under_way(now, carried)
        return None

    def _save(self, state: MemoryState, snapshot: Snapshot) -> bool:
        return self.store.save_state(
            self.session_id, state, expected=snapshot.version, user_id=self.user_id
        )

    def _take_lease(self, owner: str, wait_s: float, version: int) -> bool:
        """Take the lease; if another process has it, wait a while for its commit."""
        end = time.monotonic() + wait_s
        lease_s = self.memory.background_summaries.timeout_s
        while not self.store.lease(self.session_id, owner, lease_s, user_id=self.user_id):
            is_committed = (
                self.store.state(self.session_id, user_id=self.user_id).version != version
            )
            if time.monotonic() > end or is_committed:
                return False
            time.sleep(_POLL_S)
        return True

    def _without_incoming(self, request: TurnRequest) -> TurnRequest:
        """Return the request without this turn's messages, with their shown tokens as overhead."""
        budget = self.memory.engine.budget_for(request.options.get("budget"))
        count = self.memory.engine.counter_of(budget).message
        # A huge input is shown cut, and must not count more tokens than are shown.
        most = int(budget.shares.message * budget.limit)
        weight = min(most, sum(map(count, request.incoming)))
        overhead = request.options.get("overhead_tokens", 0) + weight
        return replace(
            request, incoming=(), options={**request.options, "overhead_tokens": overhead}
        )


def _under_way(now: Snapshot, state: MemoryState) -> MemoryState:
    """Return a state committed during a call, whose request was made under the previous one."""
    last = now.messages[-1].id if now.messages else None
    return in_force_from(state, last, skip=True)


def with_time(row: TranscriptRow) -> BaseMessage:
    """Return the message of a row, with its time in `response_metadata["tokenmem"]` if known."""
    message = row.message  # it was read for this call: no need to copy a long one
    if row.is_dated:
        moment = row.created_at.isoformat()
        message.response_metadata[MARKS] = {**marks_of(message), "created_at": moment}
    return message
