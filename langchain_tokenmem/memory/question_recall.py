"""Recall for a model call: the memory block of the newest question, added to the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import as_messages
from langchain_tokenmem.core.memory_block import block_of
from langchain_tokenmem.core.request_options import RequestOptions
from langchain_tokenmem.memory.recalled_blocks import (
    ConversationScope,
    add_memory_block,
    question_without_block,
    search_for_question,
)
from langchain_tokenmem.memory.token_memory import TokenMemory
from langchain_tokenmem.state import MemoryState, load_state


def with_recalled(
    memory: TokenMemory,
    messages: Sequence[BaseMessage],
    state: MemoryState | None,
    conversation: ConversationScope,
    **options: Unpack[RequestOptions],
) -> MemoryState | None:
    """Return the state with a memory block for the newest question; `state` if none is due.

    The block holds what the memory's recall finds, verbatim, up to `recall_share` of the limit and
    as many messages as the mode has, and nothing that the request shows already. Where the index
    fails the call goes on without.

    Args:
        memory: The memory, with its recall.
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
    if memory.recall is None or question is None:
        return state
    call = memory.engine.prepare(messages, known, **options)
    found = search_for_question(
        memory.recall,
        question,
        conversation,
        memory.recall_scope,
        call.shown_ids(),
        memory.warn_once,
        memory.stored_form,
    )
    if found is None:
        return state
    most = call.mode.recall_k if call.mode else None
    block = block_of(found[:most], call.budget.recall_tokens, call.counter.text)
    return add_memory_block(known, messages, question, block)
