"""Imports a history into a session, page by page, so that it can be run again at any time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory

from langchain_tokenmem.core.messages import marked, role_of
from langchain_tokenmem.errors import ConfigurationError, HistoryImportError
from langchain_tokenmem.storage.database.json_values import to_json
from langchain_tokenmem.storage.imports.given_times import given_time
from langchain_tokenmem.storage.imports.old_summary import (
    CoveredMessages,
    OldSummary,
    carrier_of,
    recognised,
)
from langchain_tokenmem.storage.imports.page_writer import (
    ImportReport,
    PageMessage,
    PageWriter,
    Progress,
    renamed,
)
from langchain_tokenmem.storage.imports.sources import SUMMARY, SourceMessage, pages_of
from langchain_tokenmem.storage.transcripts.encoded_message import EncodedMessage, created_at_of

Source = BaseChatMessageHistory | Iterable[Any]
"""A chat history, or messages in any form that LangChain takes."""


class HistoryImport:
    """One import of a source into a session.

    Args:
        writer: Stores its pages.
        now: Time of messages before which no message of the source has one.
        summary: Text of a summary that the source's memory has made.
        covers: How many messages of the source it is about; 0 where these are not in the source.

    Raises:
        ConfigurationError: When `covers` is negative, or stands without a summary.
    """

    def __init__(
        self, writer: PageWriter, *, now: datetime, summary: str | None, covers: int
    ) -> None:
        if covers < 0 or (covers and summary is None):
            raise ConfigurationError(
                f"summary_covers is {covers}; it is the number of messages that summary= is about."
            )
        self._writer = writer
        self._given = summary.strip() if summary and summary.strip() else None
        self._summary: OldSummary | None = None
        self._is_carried = not covers
        self._covered = CoveredMessages(covers)
        self._now, self._time = now, now

    def run(self, source: Source, progress: Progress | None = None) -> ImportReport:
        """Store every page in a transaction of its own, then the summary.

        Raises:
            HistoryImportError: When the source cannot be imported from some place on.
        """
        try:
            for page in self._with_summary(pages_of(source)):
                self._store(page)
                if progress is not None:
                    progress(self._writer.report.done)
        except HistoryImportError as error:
            done = self._writer.report.done
            raise HistoryImportError(error.what, error.where, done) from error
        if self._summary is not None:
            state = self._covered.state(self._summary, self._now, is_carried=self._is_carried)
            if state is not None:
                self._writer.begin_with(self._covered.first, to_json(state)[0], None)
        return self._writer.report

    def _with_summary(self, pages: Iterator[list[SourceMessage]]) -> Iterator[list[SourceMessage]]:
        """Yield the pages, their summary in the form in which it is stored."""
        first = next(pages, [])
        for number, one in enumerate(first):
            found = recognised(one.message, self._given)
            if found is not None:
                self._summary, self._is_carried = found, True
                self._covered = CoveredMessages(self._covered.wanted + 1)
                carrier = carrier_of(found, one.message)
                first[number] = replace(one, message=carrier, position=SUMMARY)
            if found is not None or role_of(one.message) != "system":
                break
        if self._summary is None and self._given is not None:
            self._summary = OldSummary(self._given, "summary=")
            if self._is_carried:
                self._covered = CoveredMessages(1)
                first.insert(0, SourceMessage(carrier_of(self._summary), SUMMARY, "summary="))
        yield from chain([first] if first else [], pages)

    def _store(self, page: list[SourceMessage]) -> None:
        encoded = [self._encoded(one) for one in page]
        stored = self._writer.store(encoded)
        if encoded[0].is_first_only and encoded[0] not in stored:
            self._summary = None  # a session that has begun keeps its own beginning
        for one in stored:
            self._covered.see(one.row.stored, one.message_id)

    def _encoded(self, one: SourceMessage) -> PageMessage:
        """Return a message with its time, under its own id or a made-up one.

        Raises:
            HistoryImportError: When it cannot be stored; nothing of its page is.
        """
        try:
            time = given_time(one.message)
            if time is not None:
                self._time = created_at_of(marked(one.message, created_at=time), self._now)
            row = EncodedMessage(one.message, created_at=self._time, is_dated=time is not None)
            is_summary = one.position == SUMMARY
            found = PageMessage(row, row.stored.id or "", one.position, is_first_only=is_summary)
            if not found.message_id:
                found = replace(renamed(found), is_renamed=False)
            _ = found.row.encoding
        except (ConfigurationError, AttributeError, TypeError) as error:
            raise HistoryImportError(str(error), one.where) from error
        return found
