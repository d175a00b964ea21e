"""Recall for a model call: the search for the newest question, and its block in the state."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.covered import digest_of_words, newest_entry
from langchain_tokenmem.core.facts.own_words import own_words
from langchain_tokenmem.core.inserted_text import block_of
from langchain_tokenmem.core.messages import digest_of, role_of, text_of, with_ids
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.core.search_units import Hit
from langchain_tokenmem.core.size_caps import request_tokens
from langchain_tokenmem.core.thread_names import is_subgraph_session
from langchain_tokenmem.errors import ScopeError
from langchain_tokenmem.events import MemoryEvent
from langchain_tokenmem.memory.prepared_call import PreparedCall
from langchain_tokenmem.notes.kept_notes import (
    KeptNotes,
    kept_notes,
    questions_in,
    standing_notes,
    with_notes_in_front,
)
from langchain_tokenmem.state import Block, MemoryState

if TYPE_CHECKING:
    from langchain_tokenmem.memory.token_memory import TokenMemory
    from langchain_tokenmem.notes.notebook import Notebook

MAX_HITS = 50
"""Maximum hits to search for; the budget's recall share decides how many are shown."""

_WEAK = 0.3
"""Fraction of the best score below which a hit by words is left out, unless it matches half of what
the best match does: parts of long answers have low scores."""

_MATCHED = 0.2
"""Share of a message's weight (IDF) that a hit must match if it is not near in meaning, unless the
message is a question."""

_NEAR = 0.8
"""Fraction of the best cosine from which a hit is near in meaning."""

_QUESTION_MARK = re.compile("[?\uff1f\u061f]")
_LONGEST_QUESTION = 300
"""Characters up to which a message with a question mark is a question. The questions of LoCoMo,
REALTALK and BEAM are shorter; most messages to BEAM's assistant are longer, with code."""

_MAX_QUERY_CHARS = 4_000
"""Maximum characters of the newest human message in a query, from its beginning."""


class Recaller(Protocol):
    """The part of a recall that the memory uses; `langchain_tokenmem.Recall` is one.

    It may have a `scope` (`session` if it has none) and a `k`, as `Recall` has.
    """

    @property
    def search(self) -> Callable[..., Sequence[Hit]]:
        """Find messages: `search(query, session_id=, user_id=, scope=, k=, exclude=)`."""
        ...

    @property
    def store(self) -> Any:
        """The store of the transcripts that it searches."""
        ...


@dataclass(frozen=True)
class ConversationScope:
    """A conversation whose messages may be recalled: its key, its owner, its own messages.

    Attributes:
        session_id: Id of the conversation.
        user_id: Its owner.
        branch: Every message of this branch by its id, if a session may have several: a graph's
            thread with forks and edits. None for everything stored in the session.
        pruned: Numbers of further messages of this branch, as ranges.
    """

    session_id: str
    user_id: str | None = None
    branch: Mapping[str, BaseMessage] | None = None
    pruned: Sequence[Sequence[int]] = ()


def with_recalled(
    memory: TokenMemory,
    messages: Sequence[BaseMessage],
    state: MemoryState,
    conversation: ConversationScope,
    **options: Unpack[RequestOptions],
) -> MemoryState:
    """Return the state with a memory block for the newest question; `state` if none is due.

    The block contains the kept notes that match, up to `shares.notes` of the limit, then what the
    memory's recall finds, verbatim, up to `shares.recall` and at most `k` messages (of the
    memory, else of the mode), without what the request already shows. If a store or the
    index fails, the call continues without the block. A fold hides messages that the question's
    block leaves out because they were shown: then the block is made again.

    Args:
        memory: The memory, with its recall and its notes.
        messages: The conversation, oldest first, with a human message last.
        state: What was decided so far.
        conversation: Where recall searches, and which messages belong to the conversation.
        options: Keywords `system`, `tools`, `budget` and others: see `RequestOptions`.

    Raises:
        BudgetExceededError: When the fixed parts alone exceed the limit.
        ScopeError: When other sessions are to be searched and the user is not known.
    """
    notebook = memory.notes_in_blocks
    if memory.recall is None and notebook is None:
        return state
    question = question_without_block(messages, state)
    if question is None:
        return state
    call = memory.engine.prepare(messages, _without_block(state, question), **options)
    started = time.perf_counter()
    block = _recalled(memory, question, conversation, call)
    if block is not None and block["ids"]:
        _tell(memory, call, "recall", block["text"], block["ids"], started)
    started = time.perf_counter()
    notes = _kept_notes(memory, notebook, conversation, call) if notebook is not None else None
    if notes and notes.text:
        _tell(memory, call, "notes", notes.text, notes.levels, started)
    if block is None and not (notes and notes.text):
        return state
    block = with_notes_in_front(block or {"text": "", "ids": []}, notes)
    return add_memory_block(state, messages, question, block)


def with_folded_recalled(
    memory: TokenMemory,
    call: PreparedCall,
    state: MemoryState,
    conversation: ConversationScope,
) -> tuple[PreparedCall, MemoryState]:
    """Return a call and the state after its compaction; after a fold, with the block made again.

    Both are unchanged if nothing was folded, or if the request with the new block exceeds the
    limit.

    Args:
        memory: The memory, with its recall and its notes.
        call: The call before the compaction, with the question's first block.
        state: The state after it.
        conversation: Where recall searches, and which messages belong to the conversation.
    """
    if not is_recalled_for(call.messages, call.state):
        return call, state
    again = with_recalled(memory, call.messages, state, conversation, **call.options)
    if again is state:
        return call, state
    longer = memory.engine.prepare_again(call, again)
    is_over = request_tokens(longer.context) > longer.budget.limit
    return (call, state) if is_over else (longer, again)


def _tell(
    memory: TokenMemory,
    call: PreparedCall,
    kind: Literal["recall", "notes"],
    text: str,
    ids: Iterable[str],
    started: float,
) -> None:
    """Report what was added to a question."""
    tokens, took = call.counter.text(text), time.perf_counter() - started
    event = MemoryEvent(kind=kind, tokens_after=tokens, ids=tuple(ids), duration_s=took)
    memory.engine.tell("end", event)


def _recalled(
    memory: TokenMemory,
    question: BaseMessage,
    conversation: ConversationScope,
    call: PreparedCall,
) -> Block | None:
    """Return the block of what recall finds; None without a recall, or if it failed."""
    most = getattr(memory.recall, "k", None)
    if most is None and call.mode:
        most = call.mode.recall_k
    if memory.recall is None or most == 0:
        return None
    found = _found(memory, memory.recall, question, conversation, call.shown_ids())
    if found is None:
        return None
    worth = worth_their_tokens(_query_of(question), found[:most])
    block = block_of(worth, call.budget.recall_tokens, call.counter.text)
    branch = conversation.branch or {}
    held = {key: digest_of_words([branch[key]]) for key in block["ids"] if key in branch}
    words = {key: digest for key, digest in held.items() if digest}
    return {**block, "words": words} if words else block


def worth_their_tokens(query: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that are worth their tokens; the others would fill the block all the same.

    Nearly every message of a user finds something. Hits of a search that does not say what matched
    are all returned. benchmarks/recall_price.py prints what this saves, and the evidence it costs.

    Args:
        query: The message for which they were found.
        hits: The hits, best first.
    """
    cosines = [hit.cosine for hit in hits if hit.cosine is not None]
    if not cosines and not all(hit.lexical for hit in hits):
        return [*hits]
    kept = hits
    if len(query) > _LONGEST_QUESTION or not _QUESTION_MARK.search(query):
        near = _NEAR * max(cosines, default=math.inf)
        kept = [h for h in hits if h.lexical >= _MATCHED or (h.cosine or 0.0) >= near]
    if cosines:  # a fused score is low for what only meaning or only words have found
        return [*kept]
    score = max((hit.score for hit in hits), default=0.0)
    matched = max((hit.lexical for hit in hits), default=0.0)
    return [h for h in kept if h.score >= _WEAK * score or h.lexical >= matched / 2]


def _kept_notes(
    memory: TokenMemory, notebook: Notebook, conversation: ConversationScope, call: PreparedCall
) -> KeptNotes | None:
    """Return the notes that match the newest question or the two turns before it, or None.

    Notes that a live block already shows are left out. Notes that were removed or changed after
    they were shown are listed as void. If the store fails, the call continues without notes.
    """
    there = {message.id for message in call.messages}
    shown = standing_notes(block for key, block in call.before["blocks"].items() if key in there)
    session_id = conversation.session_id
    try:
        asked = notebook.scoped(conversation.user_id, session_id or None)
        questions = [*questions_in(call.messages)]
        found, ids = memory.notes_calls.run(lambda: asked.relevant(questions))
        levels = set(asked.levels())
    except ScopeError:  # neither a user nor a session: there are no notes to show
        return None
    except Exception as error:  # noqa: BLE001  # an application's own store may raise
        memory.warn_once(f"Session {session_id!r}: no notes are shown, {error}")
        return None
    gone = {name for name, level in shown.items() if level in levels} - ids
    fresh = [note for note in found if note.id not in shown]
    most, count_text = call.budget.notes_tokens, call.counter.text
    return kept_notes(fresh, most, count_text, void=sorted(gone))


def question_without_block(
    messages: Sequence[BaseMessage], state: MemoryState
) -> BaseMessage | None:
    """Return the human message that asks for a memory block; None if none does.

    A block is made for each human message before the model's first word on it, and again if
    messages are folded before that word.
    """
    named = with_ids(messages[-1:])
    if not named or role_of(named[0]) != "human":
        return None
    known = state["blocks"].get(named[0].id or "")
    if known is None or ("question" not in known and "entry" in known):
        return named[0]  # it has no block, or one of working notes only
    return None if known.get("question") in {None, _made_for(named[0], state)} else named[0]


def is_recalled_for(messages: Sequence[BaseMessage], state: MemoryState) -> bool:
    """Return whether recall has made a block for the newest message."""
    newest = messages[-1].id if messages else None
    return "question" in state["blocks"].get(newest or "", {})


def _made_for(question: BaseMessage, state: MemoryState) -> str:
    """Return what distinguishes a question from an edited one, and from itself after a fold."""
    return f"{digest_of(question)[:16]} {newest_entry(state['summary'])}"


def _without_block(state: MemoryState, question: BaseMessage) -> MemoryState:
    """Return the state without the block of a question; its working notes stay."""
    key = question.id or ""
    others = {name: block for name, block in state["blocks"].items() if name != key}
    known = state["blocks"].get(key)
    if known is not None and "entry" in known:
        others[key] = {"text": "", "ids": [], "entry": known["entry"]}
        if "notes" in known:
            others[key] |= {"notes": known["notes"], "sections": known["sections"]}
    return {**state, "blocks": others}


def _found(
    memory: TokenMemory,
    recall: Recaller,
    question: BaseMessage,
    conversation: ConversationScope,
    shown: Collection[str],
) -> Sequence[Hit] | None:
    """Return hits for a question that are neither shown already nor in another branch.

    If the search fails, return None and warn: the call continues without hits.

    Raises:
        ScopeError: When other sessions are to be searched and the user is not known.
    """
    scope = getattr(recall, "scope", "session")
    if scope == "user" and conversation.user_id is None:
        raise ScopeError(
            f"Session {conversation.session_id!r}: a recall with scope='user' searches all "
            f"sessions of a user; name the user with user_id."
        )
    query = _query_of(question)
    if not query:
        return []
    search = partial(
        recall.search,
        query,
        session_id=conversation.session_id,
        user_id=conversation.user_id,
        scope=scope,
        k=MAX_HITS,
        exclude=frozenset({*shown, question.id or ""}),
    )
    try:
        found = memory.recall_calls.run(search)
        # `exclude` does not apply to documents, so those already shown are filtered out here.
        new = (hit for hit in found if hit.message_id not in shown)
        return [hit for hit in new if _is_in_scope(hit, conversation, memory)]
    except ScopeError:
        raise
    except Exception as error:  # noqa: BLE001  # an application's own recall may raise
        memory.warn_once(f"Session {conversation.session_id!r}: nothing is recalled, {error}")
        return None


def _query_of(question: BaseMessage) -> str:
    """Return what the user asks, without pictures, files, and the data of a template."""
    content = question.content
    blocks = [content] if isinstance(content, str) else content
    texts = [b if isinstance(b, str) else str(b.get("text") or "") for b in blocks]
    return own_words("\n".join(texts))[:_MAX_QUERY_CHARS].strip()


def _is_in_scope(hit: Hit, conversation: ConversationScope, memory: TokenMemory) -> bool:
    if hit.session_id != conversation.session_id:
        # Messages of a sub-agent are recalled only by that sub-agent.
        return hit.session_id is None or not is_subgraph_session(hit.session_id)
    if conversation.branch is None or hit.document_id is not None:
        return True
    held = conversation.branch.get(hit.message_id)
    if held is not None:
        # A message edited since is not recalled in its old wording.
        return hit.text.strip() in text_of(memory.stored_form([held])[0])
    return any(first <= hit.seq <= last for first, last in conversation.pruned)


def add_to_ranges(ranges: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[list[int]]:
    """Return ranges (first and last number) extended by some numbers."""
    joined: list[list[int]] = []
    for first, last in sorted([*map(tuple, ranges), *((number, number) for number in numbers)]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined


def add_memory_block(
    state: MemoryState, messages: Sequence[BaseMessage], question: BaseMessage, block: Block
) -> MemoryState:
    """Return the state with the memory block of a question.

    Blocks of missing messages are removed: the question of a failed call was not stored.
    """
    there = {message.id for message in with_ids(messages)}
    others = _without_block(state, question)["blocks"]
    blocks = {key: known for key, known in others.items() if key in there}
    key = question.id or ""
    asked: Block = {**blocks.get(key, block), **block, "question": _made_for(question, state)}
    return {**state, "blocks": {**blocks, key: asked}}
