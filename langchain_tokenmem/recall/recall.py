"""`Recall`: search over everything that was said, by words and by vectors."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeVar

from langchain_core.documents import Document
from tqdm import tqdm

from langchain_tokenmem.background import Closeable, in_thread
from langchain_tokenmem.core.argument_checks import checked, checked_choice
from langchain_tokenmem.core.search_units import Change, Hit, Scope
from langchain_tokenmem.errors import ConfigurationError, RecallError, ScopeError, StoreError
from langchain_tokenmem.recall.analysis import TextAnalyser
from langchain_tokenmem.recall.arguments import (
    check_document_ids,
    checked_counter,
    document_source,
    scope_of,
    time_of,
)
from langchain_tokenmem.recall.chroma import ChromaIndex
from langchain_tokenmem.recall.embeddings import AnyEmbeddings
from langchain_tokenmem.recall.fusion import Boosts, Floor, Ranking, fused
from langchain_tokenmem.recall.regex_search import search_by_regex
from langchain_tokenmem.recall.results import (
    ResultSelection,
    SearchOptions,
    Validate,
    validated,
)
from langchain_tokenmem.recall.text_parts import rough_tokens
from langchain_tokenmem.recall.vector_store import VectorStoreIndex
from langchain_tokenmem.recall.vectors import vector_index
from langchain_tokenmem.recall.words import LexicalIndex, Scores
from langchain_tokenmem.recall.worker import LexicalBacklog
from langchain_tokenmem.storage.index_reader import IndexReader
from langchain_tokenmem.storage.lifecycle import ExpiryReport
from langchain_tokenmem.storage.redaction import RemovalReceipt
from langchain_tokenmem.storage.redactor import Redactor
from langchain_tokenmem.storage.transcript_store import TranscriptStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

RecallScope = Literal["session", "user"]
"""What is searched: one session, or all sessions of its user."""


class Recall(Closeable):
    """Search over everything that was ever said in a session, or by and to a user.

    It always searches by words and, with a `ChromaIndex` or `embeddings`, by meaning. Every hit is
    read from the transcript, and its scope is checked there again. Once a `Recall` exists, the
    store writes index entries with every append; earlier messages are indexed when they are first
    searched, most of a long history in the background (`backlog()`). A `Recall` may be shared
    between threads; async methods run the sync method in a thread.

    Args:
        store: The transcripts.
        chroma: Where vectors are searched, with their embedding model: a `ChromaIndex` or a
            `VectorStoreIndex`.
        embeddings: An embedding model, for exact search in the store's own vectors: an
            `Embeddings`, a function of a list of texts, or a name such as
            `openai:text-embedding-3-small`. Not together with `chroma`.
        on_model_change: What to do when the store has vectors of another model: `refuse` searches
            by words alone until `rebuild()`, `rebuild` embeds everything again in the background.
        language: Language of stems and stop-words: `english`, `german`, `french` ...
        lexical_weight: Weight of the normalised score by words, if there are vectors.
        dense_weight: Weight of the normalised score by vectors.
        floor: Minimum that a message must have in common with a question.
        boosts: Factors for a named speaker and a named date.
        count_tokens: Counts the tokens of a text for `max_tokens`; default: an estimate without a
            vocabulary.
        scope: Where a `TokenMemory` searches before a turn, and `search` by default: in the
            conversation's own `session`, or in all sessions of its `user`.
        k: Maximum number of messages recalled for a turn; 0 for none. Default: the mode's
            `recall_k`; without a mode as many as fit into `shares.recall` of the budget.
        validate: Called with each `Hit` before anyone sees it, in a turn's recall, a search, a tool
            or a retriever, against poisoned text. Returns the hit, a changed one
            (`dataclasses.replace(hit, text=...)`), or None to leave it out; no other hit takes its
            place. If it raises, the hit is left out, and a warning is logged.

    Raises:
        ConfigurationError: When a setting is invalid.

    Example:
        >>> from langchain_core.messages import AIMessage, HumanMessage
        >>> from langchain_tokenmem import TranscriptStore
        >>> store = TranscriptStore("sqlite://")
        >>> with Recall(store) as recall:
        ...     _ = store.add("s1", [HumanMessage("What does it cost?"), AIMessage("42 euros.")])
        ...     [hit.text for hit in recall.search("costs in euros?", session_id="s1", k=1)]
        ['42 euros.']
    """

    def __init__(
        self,
        store: TranscriptStore,
        chroma: ChromaIndex | VectorStoreIndex | None = None,
        *,
        embeddings: AnyEmbeddings | None = None,
        on_model_change: Literal["refuse", "rebuild"] = "refuse",
        language: str = "english",
        lexical_weight: float = 0.4,
        dense_weight: float = 0.6,
        floor: Floor | None = None,
        boosts: Boosts | None = None,
        count_tokens: Callable[[str], int] | None = None,
        scope: RecallScope = "session",
        k: int | None = None,
        validate: Validate | None = None,
    ) -> None:
        if min(lexical_weight, dense_weight) < 0:
            raise ConfigurationError("The weights of a recall cannot be negative.")
        if k is not None and (type(k) is not int or k < 0):
            raise ConfigurationError(f"k is {k!r}; it must be 0 or more messages, or None.")
        self.scope = checked_choice(scope, RecallScope, "scope")
        self.k = k
        self._analyser = TextAnalyser(language)
        self.lexical = LexicalIndex(store, analyser=self._analyser)
        self._store = store
        self._dense = vector_index(store.index, chroma, embeddings, on_model_change)
        self._weights = (lexical_weight, dense_weight)
        self._floor = floor or Floor()
        self._boosts = boosts or Boosts()
        self.count_tokens = count_tokens or rough_tokens
        self._validate = validate
        self._lexical_backlog = LexicalBacklog(store.index)
        self._has_warned = False
        self._is_closing = False
        self._stop_listening: Callable[[], None] | None = None
        if self._dense is not None:
            self._stop_listening = store.index.listen(self._dense.wake)
            self._dense.wake(Change("added"))  # for what an earlier process left unfinished

    def __repr__(self) -> str:
        meaning = "" if self._dense is None else f", {self._dense!r}"
        return f"Recall({self.store!r}{meaning})"

    @property
    def store(self) -> TranscriptStore:
        """The transcripts that it searches."""
        return self._store

    def search(
        self,
        query: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        scope: RecallScope | None = None,
        k: int = 20,
        max_tokens: int | None = None,
        after: datetime | date | str | None = None,
        before: datetime | date | str | None = None,
        exclude: Collection[str] = frozenset(),
        among: Collection[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  LangChain's name for it
        count_tokens: Callable[[str], int] | None = None,
    ) -> list[Hit]:
        """Return what matches a question, best first; empty if nothing is close enough.

        Args:
            query: The question as asked.
            session_id: The session that asks; not needed with `scope="user"`.
            user_id: The user who asks; the session must belong to them.
            scope: `session` for this session alone, `user` for all sessions of the user. Default:
                the recall's own, if a user is named.
            k: Maximum number of hits.
            max_tokens: Maximum tokens of all hits together, each with its date and speaker.
            after: Earliest time of a hit: a datetime, a date (its first moment) or either in ISO
                8601; UTC if it has no time zone.
            before: Time before which every hit was said, in the same forms.
            exclude: Ids of messages to leave out.
            among: Ids of the only messages that may be found; default: all in scope.
            filter: Metadata that a document must have; a message has `role` and `name`.
            count_tokens: Counter for this search instead of the recall's own.

        Raises:
            ScopeError: Without a session id, or a user id for the user's scope, and when the
                session belongs to another user.
            RecallError: When the store cannot answer, or `count_tokens` raises.
            ConfigurationError: When an argument has a wrong type, or `after` or `before` is not a
                time.
        """
        checked(query, str, "query", 'recall.search("What did we decide?", session_id="s1")')
        mapping: Any = Mapping
        checked(filter or {}, mapping, "filter", 'recall.search(..., filter={"kind": "manual"})')
        where = scope_of(session_id, user_id, scope or (self.scope if user_id else "session"))
        timed = replace(where, after=time_of(after, "after"), before=time_of(before, "before"))
        options = SearchOptions(
            k=k,
            max_tokens=max_tokens,
            exclude=exclude,
            among=among,
            metadata=filter or {},
            count_tokens=checked_counter(count_tokens or self.count_tokens),
        )
        if not query.strip() or k < 1:
            return []
        try:
            found = self._search(query, timed, options)
        except StoreError as error:
            raise RecallError(f"Recall could not search: {error}") from error
        return validated(found, self._validate)

    asearch = in_thread(search)

    def _search(self, query: str, where: Scope, options: SearchOptions) -> list[Hit]:
        dense = self._dense
        with self._indexed(where) as reader:
            # The request of a short conversation shows all of it: searching takes ten times as long
            # as finding that out.
            if reader is None or not reader.has_more_than(options.exclude):
                return []
            words, selection = self._by_words(query, reader, options)
            spelled = selection.query_with_names()
            if spelled != query:
                query = spelled
                words, selection = self._by_words(query, reader, options)
            if dense is None or not dense.has_any(reader, options.among, options.exclude):
                return selection.select(self._fused(words))
            without_names = selection.query_without_names()
        # The model may be slow: hold no connection meanwhile.
        question = self._or_none(lambda: dense.question(without_names))
        with self._store.index.reading(where) as reader:
            if reader is None:
                return []
            near, selection = None, self._selection(query, reader, words, options)
            narrows = options.among is not None or options.metadata or where.after or where.before
            allowed = selection.allowed if narrows else None
            if question is not None:
                near = self._or_none(lambda: dense.scores(question, reader, words, allowed))
                self._has_warned = self._has_warned and near is None
            found, lacking = near or ((), ())
            units = [unit for unit, _ in found]
            there = {*reader.filter_units(units, options.among, options.exclude)}
            found = [(unit, cosine) for unit, cosine in found if unit in there]
            return selection.select(self._fused(words, found, lacking))

    def _by_words(
        self, query: str, reader: IndexReader, options: SearchOptions
    ) -> tuple[Scores, ResultSelection]:
        words = self.lexical.scores(query, reader, among=options.among, exclude=options.exclude)
        return words, self._selection(query, reader, words, options)

    def _selection(
        self, query: str, reader: IndexReader, words: Scores, options: SearchOptions
    ) -> ResultSelection:
        return ResultSelection(self._analyser, reader, query, words, options, self._boosts)

    @contextmanager
    def _indexed(self, where: Scope) -> Iterator[IndexReader | None]:
        """Open a view of a scope with all words indexed, except for a long backlog."""
        index = self._store.index
        index.make_ready()
        with index.reading(where) as reader:
            if reader is None or not reader.has_backlog:
                yield reader
                return
        self._lexical_backlog.index_scope(replace(where, after=None, before=None))
        with index.reading(where) as reader:
            yield reader

    def _or_none(self, ask: Callable[[], T]) -> T | None:
        """Search by vectors; on failure warn once and return None, to search by words only."""
        try:
            return ask()
        except RecallError as error:
            if not self._has_warned:
                logger.warning("Recall by meaning is off, only words are searched: %s", error)
            self._has_warned = True
            return None

    def _fused(
        self,
        words: Scores,
        near: Sequence[tuple[int, float]] = (),
        lacking: Collection[int] = (),
    ) -> Ranking:
        return fused(
            words,
            near,
            lexical_weight=self._weights[0],
            dense_weight=self._weights[1],
            floor=self._floor,
            lacking=lacking,
        )

    def history_search(
        self,
        pattern: str,
        *,
        session_id: str,
        user_id: str | None = None,
        limit: int = 20,
        ignore_case: bool = True,
        timeout_s: float = 2.0,
        include_superseded: bool = False,
    ) -> list[Hit]:
        """Return the newest messages of a session that match a regular expression, in order.

        Args:
            pattern: A regular expression.
            session_id: The session to search.
            user_id: The user who asks; the session must belong to them.
            limit: Maximum number of messages.
            ignore_case: Whether matching is case-insensitive.
            timeout_s: Seconds for matching; a runaway pattern is stopped.
            include_superseded: Also search superseded wordings and hidden messages.

        Raises:
            ScopeError: Without a session id, or when the session belongs to another user.
            ConfigurationError: When the pattern is not a regular expression.
            RecallError: When it takes too long.
        """
        where = scope_of(session_id, user_id, "session")
        found = search_by_regex(
            self._store.index,
            where,
            pattern,
            limit=limit,
            ignore_case=ignore_case,
            timeout_s=timeout_s,
            include_superseded=include_superseded,
        )
        return validated(found, self._validate)

    ahistory_search = in_thread(history_search)

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> list[str]:
        """Add documents to a session or a user; one with a known id replaces the earlier one.

        An unchanged document is not stored or embedded again. `metadata["created_at"]` (a datetime,
        ISO 8601 or seconds since 1970) is the document's date; default: now. A long document is
        indexed in parts of about 256 tokens. If you split documents yourself, set
        `metadata["document_id"]` on each part: hits return it, `delete` deletes all parts of the
        document, and successive parts are neighbours, as messages are.

        Args:
            documents: LangChain documents; one without an id gets a hash of its content.
            session_id: The session that they belong to.
            user_id: The user that they belong to if no session is named: they are found with
                `scope="user"`.

        Returns:
            The ids, in order.

        Raises:
            ScopeError: When neither is named, or the session belongs to another user.
            ConfigurationError: When a document or a date is invalid, or two different texts have
                one id; nothing was added.
        """
        now = datetime.now(UTC)
        sources = [document_source(each, session_id, user_id, now) for each in documents]
        check_document_ids(sources)
        if sources:
            self._store.index.put_documents(sources)
        elif session_id is None and user_id is None:
            raise ScopeError("Documents belong to a session or a user: name one.")
        return [source.source_id for source in sources]

    aadd_documents = in_thread(add_documents)

    def document(
        self,
        document_id: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> Document | None:
        """Return a document as it was added, or None if there is none.

        Args:
            document_id: Its id, as in `Hit.message_id`.
            session_id: The session that it belongs to.
            user_id: The user that it belongs to if no session is named.

        Raises:
            ScopeError: When neither id is named, or the session belongs to another user.
            CorruptStoreError: When it is damaged.
        """
        found = self._store.index.document(document_id, session_id=session_id, user_id=user_id)
        if found is None:
            return None
        return Document(found.text, id=found.source_id, metadata=dict(found.metadata))

    adocument = in_thread(document)

    def count(self, session_id: str | None = None, user_id: str | None = None) -> int:
        """Return the number of documents of a session, of a user or, by default, of the store.

        Raises:
            ScopeError: When the session belongs to another user.
        """
        return self._store.index.count_documents(session_id, user_id)

    acount = in_thread(count)

    def delete(
        self, document_id: str, *, session_id: str | None = None, user_id: str | None = None
    ) -> bool:
        """Delete a document and all parts that name it; return whether anything was deleted.

        Raises:
            ScopeError: When neither id is named, or the session belongs to another user.
        """
        return self._store.index.delete_document(
            document_id, session_id=session_id, user_id=user_id
        )

    adelete = in_thread(delete)

    def index(self) -> int:
        """Index everything that is missing now; return how many messages and units that was.

        Raises:
            RecallError: When the embedding model or Chroma fails; nothing is lost.
        """
        done = self.lexical.index()
        return done + (self._dense.index() if self._dense is not None else 0)

    aindex = in_thread(index)

    def backlog(self) -> dict[str, int]:
        """Return how many partitions are not fully indexed, by index: `lexical`, `vectors`."""
        found = self._store.index.backlog()
        return found if self._dense is not None else {"lexical": found["lexical"]}

    def rebuild(self, *, progress: bool = False) -> int:
        """Rebuild every index from the transcript; return how many texts and vectors that was.

        Searches go on meanwhile, and find by words what they found before. A rebuild that was
        interrupted (Ctrl-C, `close`, the end of the process) is continued by the next call.

        Args:
            progress: Whether to show a progress bar, on stderr.

        Raises:
            RecallError: When the embedding model or Chroma fails; the next call continues.
        """
        self._is_closing = False
        texts = 0
        with tqdm(desc="Words", unit="message", disable=not progress) as bar:
            for count, done, bar.total in self._store.index.rebuild_lexical():
                texts += count
                bar.update(done - bar.n)
                if self._is_closing:
                    return texts
        dense = self._dense.rebuild(progress=progress) if self._dense is not None else 0
        self._store.index.finish_rebuild()
        return texts + dense

    arebuild = in_thread(rebuild)

    def erase(self, session_id: str | None = None, user_id: str | None = None) -> dict[str, int]:
        """Delete everything of a session or a user, from the store and from Chroma.

        Returns:
            How many entries of each kind were deleted.

        Raises:
            ScopeError: When neither id is given, or the session belongs to another user.
            RecallError: When Chroma could not delete; the store's data is deleted by then.
        """
        counts, gone = self._erasing(lambda: self._store.erase(session_id, user_id))
        return counts if gone is None else {**counts, "chroma": gone}

    aerase = in_thread(erase)

    def redact(
        self,
        what: str | re.Pattern[str],
        replacement: str = "[redacted]",
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        everywhere: bool = False,
        dry_run: bool = False,
        serde: Any = None,
    ) -> RemovalReceipt:
        """Like `TranscriptStore.redact`; the entries in Chroma are deleted, and rebuilt later.

        An embedded Chroma writes unused memory of the process into its files. A folder in which the
        words are found is deleted and rebuilt, too.

        Raises:
            ScopeError: When no scope is named, or the session belongs to another user.
            ConfigurationError: When the words are empty, or the replacement contains them.
            RedactionError: When the words are still found afterwards.
            RecallError: When Chroma could not delete; the store's data is redacted by then.
        """

        def work() -> RemovalReceipt:
            return self._store.redact(
                *(what, replacement),
                session_id=session_id,
                user_id=user_id,
                everywhere=everywhere,
                dry_run=dry_run,
                serde=serde,
            )

        receipt, gone = self._erasing(work, "cleared")
        if self._dense is None or dry_run:
            return receipt
        files = self._dense.scrub(Redactor(what, replacement).holds)
        also = {"chroma": gone, "chroma_folders": files}
        return replace(receipt, counts={**receipt.counts, **{k: n for k, n in also.items() if n}})

    aredact = in_thread(redact)

    def expire(
        self,
        inactive_for: timedelta | None = None,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ExpiryReport:
        """Like `TranscriptStore.expire`; the entries in Chroma are deleted, too.

        Raises:
            ConfigurationError: When the time is missing or invalid.
            RecallError: When Chroma could not delete; the store's data is deleted by then.
        """
        report, gone = self._erasing(
            lambda: self._store.expire(inactive_for, dry_run=dry_run, now=now, progress=progress)
        )
        if gone is None or dry_run:
            return report
        return replace(report, counts={**report.counts, "chroma": gone})

    aexpire = in_thread(expire)

    def _erasing(self, work: Callable[[], T], kind: str = "erased") -> tuple[T, int | None]:
        """Return the result of `work`, and how many entries in Chroma were deleted with it.

        None instead of a number if there is no search by meaning.
        """
        erased: list[int] = []

        def note(change: Change) -> None:
            if change.kind == kind:
                erased.extend(change.partitions)

        stop = self._store.index.listen(note)
        try:
            done = work()
        finally:
            stop()
        return done, None if self._dense is None else self._dense.forget(erased)

    def close(self) -> None:
        """Stop the worker and a rebuild, and close Chroma; the store stays open."""
        self._is_closing = True
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        self._lexical_backlog.close()
        if self._dense is not None:
            self._dense.close()

    aclose = in_thread(close)
