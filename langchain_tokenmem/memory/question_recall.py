"""Recall for a model call: the memory block of the newest question, added to the state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Literal, Unpack

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.edited_words import digest_of_words
from langchain_tokenmem.core.inserted_text import block_of
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.events import MemoryEvent
from langchain_tokenmem.memory.prepared_call import PreparedCall
from langchain_tokenmem.memory.recalled_blocks import (
    ConversationScope,
    add_memory_block,
    question_without_block,
    search_for_question,
)
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.notes.kept_notes import notes_for_question, with_notes_in_front
from langchain_tokenmem.state import Block, MemoryState, load_state


def with_recalled(
    memory: TokenMemory,
    messages: Sequence[BaseMessage],
    state: MemoryState | None,
    conversation: ConversationScope,
    **options: Unpack[RequestOptions],
) -> MemoryState | None:
    """Return the state with a memory block for the newest question; `state` if none is due.

    The block holds the kept notes that match, up to `shares.notes` of the limit, then what the
    memory's recall finds, verbatim, up to `shares.recall` and as many messages as `k` of the
    memory, else of the mode, says; nothing that the request shows already. Where a store or the
    index fails the call goes on without.

    Args:
        memory: The memory, with its recall and its notes.
        messages: The conversation, oldest first; a human message stands last.
        state: What was decided so far; None for nothing.
        conversation: Where recall looks, and which messages are the conversation's own.
        options: Keywords `system`, `tools`, `budget` and others: see `RequestOptions`.

    Raises:
        BudgetExceededError: When the fixed parts alone exceed the limit.
        ScopeError: When other sessions are asked for and the user is not known.
    """
    messages = as_messages(messages)
    known = load_state(state)
    question = question_without_block(messages, known)
    notebook = memory.notes_in_blocks
    if question is None or (memory.recall is None and notebook is None):
        return state
    call = memory.engine.prepare(messages, known, **options)
    started = time.perf_counter()
    block = _recalled(memory, question, conversation, call)
    if block is not None and block["ids"]:
        _tell(memory, call, "recall", block["text"], block["ids"], started)
    notes, started = None, time.perf_counter()
    if notebook is not None:
        most, count_text = call.budget.notes_tokens, call.counter.text
        notes = notes_for_question(
            notebook,
            messages,
            known,
            conversation.user_id,
            conversation.session_id,
            most,
            count_text,
            memory.warn_once,
            memory.notes_calls,
        )
    if notes and notes.text:
        _tell(memory, call, "notes", notes.text, notes.levels, started)
    if block is None and not (notes and notes.text):
        return state
    block = with_notes_in_front(block or {"text": "", "ids": []}, notes)
    return add_memory_block(known, messages, question, block)


def _tell(
    memory: TokenMemory,
    call: PreparedCall,
    kind: Literal["recall", "notes"],
    text: str,
    ids: Iterable[str],
    started: float,
) -> None:
    """Tell of what was put beside a question."""
    tokens, took = call.counter.text(text), time.perf_counter() - started
    event = MemoryEvent(kind=kind, tokens_after=tokens, ids=tuple(ids), duration_s=took)
    memory.engine.tell("end", event)


def _recalled(
    memory: TokenMemory,
    question: BaseMessage,
    conversation: ConversationScope,
    call: PreparedCall,
) -> Block | None:
    """Return the block of what recall finds; None without a recall, and where it failed."""
    most = getattr(memory.recall, "k", None)
    if most is None and call.mode:
        most = call.mode.recall_k
    if memory.recall is None or most == 0:
        return None
    found = search_for_question(
        memory.recall,
        question,
        conversation,
        call.shown_ids(),
        memory.warn_once,
        memory.stored_form,
        memory.recall_calls,
    )
    if found is None:
        return None
    block = block_of(found[:most], call.budget.recall_tokens, call.counter.text)
    branch = conversation.branch or {}
    held = {key: digest_of_words([branch[key]]) for key in block["ids"] if key in branch}
    words = {key: digest for key, digest in held.items() if digest}
    return {**block, "words": words} if words else block
