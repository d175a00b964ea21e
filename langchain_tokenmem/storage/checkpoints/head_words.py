"""Lets the transcript of a thread say what the thread's head says.

A checkpoint holds references: the first words of a message stand in the transcript, edited ones
beside it. Where a new head has other references than the one before it, its words supersede those
that the transcript shows, in the transaction of the put.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.before_store import BeforeStore, as_kept
from langchain_tokenmem.core.search_units import Change
from langchain_tokenmem.core.thread_names import is_id
from langchain_tokenmem.errors import ConfigurationError
from langchain_tokenmem.storage.checkpoints.message_rows import MessageRows
from langchain_tokenmem.storage.search_index.store import IndexStore
from langchain_tokenmem.storage.transcripts.edits import read_edits, set_words
from langchain_tokenmem.storage.transcripts.encoded_message import EncodedMessage, key_of
from langchain_tokenmem.storage.transcripts.message_rows import keys_at, seqs_by_key
from langchain_tokenmem.storage.transcripts.sessions import SessionRow


@dataclass(frozen=True)
class HeadWords:
    """The words of a thread's head.

    Attributes:
        rows: The messages beside the transcript.
        index: Takes the words that the transcript shows from now on.
        before_store: Changes messages on their way into the transcript.
        hides_removed: Whether messages that the head has no more are hidden.
    """

    rows: MessageRows
    index: IndexStore
    before_store: BeforeStore | None
    hides_removed: bool

    def may_differ(self, refs: str) -> bool:
        """Return whether the transcript may say anything else than a head with these references.

        Only what stands beside the transcript, and what was edited before, can differ from it.
        """
        if self.hides_removed or "-" in refs or "#" in refs:
            return True
        session = self.rows.find_transcript()
        return session is not None and bool(session.edit_count)

    def follow(
        self,
        before: str,
        refs: str,
        messages: Sequence[BaseMessage],
        now: datetime,
        *,
        is_first: bool,
    ) -> Change | None:
        """Let the transcript say what a new head says.

        Args:
            before: References of the messages of the head before it.
            refs: Those of its own.
            messages: Its messages.
            now: Time of the edits.
            is_first: Whether this process sees the thread for the first time: edits from before
                version 5 have left nothing in the transcript.

        Returns:
            What to tell the index's listeners after the commit; None when nothing changed.
        """
        session = self.rows.find_transcript()
        if session is None:
            return None
        numbers = self.rows.read_references(refs)
        held = dict(zip(numbers, messages, strict=True))
        known = set(self.rows.read_references(before))
        is_unknown = is_first and not session.edit_count
        added = {n: held[n] for n in numbers if is_unknown or n not in known}
        wanted: dict[int, EncodedMessage | None] = dict(self._edited(session, added))
        if self.hides_removed:
            wanted.update(dict.fromkeys(self._removed(known - held.keys(), messages)))
        if not wanted:
            return None
        return set_words(self.rows.tx.connection, self.index, session, wanted, now)

    def _edited(
        self, session: SessionRow, added: Mapping[int, BaseMessage]
    ) -> dict[int, EncodedMessage]:
        """Return the words, by number in the transcript, of messages that it may say otherwise."""
        connection = self.rows.tx.connection
        original = [number for number in added if number > 0]
        meant = {seq: added[seq] for seq in read_edits(connection, session, original)}
        beside = [message for number, message in added.items() if number < 0]
        by_key = {key_of(str(m.id)): m for m in beside if _is_stored(m.id)}
        seqs = seqs_by_key(connection, session.key, list(by_key))
        meant |= {seq: by_key[key] for key, seq in seqs.items()}
        words = {}
        for seq, message in meant.items():
            try:
                encoded = EncodedMessage(as_kept(self.before_store, [message])[0])
                _ = encoded.encoding  # raises where no message could be made from it again
            except ConfigurationError:
                continue
            words[seq] = encoded
        return words

    def _removed(self, gone: set[int], messages: Sequence[BaseMessage]) -> list[int]:
        """Return the numbers in the transcript of messages that the head has no more."""
        connection, session_key = self.rows.tx.connection, key_of(self.rows.namespace.session_id)
        seqs = {number for number in gone if number > 0}
        # Retention may have removed some; what it removed was hidden when it left the head.
        beside = self.rows.those_there([-number for number in gone if number < 0])
        seqs |= {row["transcript_seq"] for row in beside if row["transcript_seq"]}
        names = [
            self.rows.tx.codec.unpack(row["message"]).id
            for row in beside
            if row["transcript_seq"] is None
        ]
        stored = [key_of(str(name)) for name in names if _is_stored(name)]
        seqs |= {*seqs_by_key(connection, session_key, stored).values()}
        there = {key_of(str(message.id)) for message in messages if _is_stored(message.id)}
        keys = keys_at(connection, session_key, sorted(seqs))
        return [seq for seq, key in keys.items() if key not in there]


def _is_stored(name: str | None) -> bool:
    """Return whether a transcript may have a message with this id."""
    return bool(name) and is_id(str(name))
