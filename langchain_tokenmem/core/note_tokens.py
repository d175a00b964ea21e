"""Token counts of the notes inside memory blocks."""

from __future__ import annotations

from dataclasses import replace

from langchain_tokenmem.core.context_parts import ContextParts


def notes_tokens(context: ContextParts) -> int:
    """Return the tokens that working notes and kept notes have in the memory blocks."""
    held = {key: text for key, text in context.kept_notes.items() if key in context.blocks}
    if not (held or context.working_notes):
        return 0
    bare = context.with_notes("")
    blocks = {key: text.replace(held.get(key, ""), "", 1) for key, text in bare.blocks.items()}
    without, groups = replace(bare, blocks=blocks, kept_notes={}), (*context.kept, *context.tail)
    return sum(map(context.block_tokens, groups)) - sum(map(without.block_tokens, groups))


def tokens_of_new_notes(context: ContextParts) -> int:
    """Return the tokens by which the newest human message may grow when something is folded."""
    if context.notes_after_fold is None:
        return 0
    new = context.with_notes(context.notes_after_fold)
    groups = (
        group
        for group in (*context.kept, *context.tail)
        if any(message.id == context.newest_human for message in group.source.messages)
    )
    return max(0, sum(new.block_tokens(one) - context.block_tokens(one) for one in groups))
