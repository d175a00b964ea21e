"""Builds an explanation: the tree of parts, what is hidden, changes between two states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from langchain_tokenmem.core.budget import REPLY_TOKENS, TokenBudget
from langchain_tokenmem.core.context_parts import ContextParts
from langchain_tokenmem.core.explanation import (
    Change,
    Explanation,
    Hidden,
    Part,
    RecalledBlock,
    ShortenedMessage,
    SummarizedMessages,
)
from langchain_tokenmem.core.inserted_text import LEFT_OUT, log_texts
from langchain_tokenmem.core.messages import REFERENCES, reference, role_of, speaker_of
from langchain_tokenmem.core.request_options import Trigger
from langchain_tokenmem.core.shortening import apply_cut, apply_cuts
from langchain_tokenmem.state import ChangeMade, MemoryState, SummaryEntry

if TYPE_CHECKING:
    from langchain_tokenmem.core.planning import Plan
    from langchain_tokenmem.core.view import View


def explanation_of(
    view: View,
    *,
    context: ContextParts,
    budget: TokenBudget,
    trigger: Trigger | None,
    state: MemoryState,
    counted_by: Callable[[], str],
) -> Explanation:
    """Return the explanation of a view.

    Args:
        view: The view.
        context: Its parts, fitted to the limit.
        budget: Its budget.
        trigger: When a summary is due; None for only by hand.
        state: The state from which it was made.
        counted_by: How its tokens are counted.
    """
    return Explanation(
        messages=list(view.messages),
        tokens=view.usage.input_tokens,
        limit=view.usage.max_tokens,
        window=budget.context_window,
        due=trigger.due(budget) if trigger is not None else "only by hand",
        parts=_part_tree(context, view.usage.parts, view.usage.input_tokens),
        hidden=Hidden(_summarized(context, state), _shortened(context), view.left_out),
        change=change_between(None, state),
        planned=None,
        recalled=_recalled(context),
        counted_by=counted_by(),
        profile=context.profile.name,
        warnings=view.warnings,
    )


def change_between(before: MemoryState | None, after: MemoryState) -> Change | None:
    """Return what changed between two states; None if the model sees the same as before.

    Args:
        before: The state before; None if unknown: then the newest change is returned.
        after: The state after.
    """
    made = after.get("change")
    entries = after["summary"]["entries"] if after["summary"] else []
    old = before["summary"] if before else None
    known = {entry["id"] for entry in old["entries"]} if old else set()
    new = [entry for entry in entries if entry["id"] not in known]
    last = new[-1] if new else None
    # An entry that no compaction of this state made: imported, or rewritten.
    is_other = last is not None and (made is None or last["created_at"] > made["at"])
    if before is None:
        if last is not None and is_other:
            return Change(last["reason"], last["covered"], 0, last["created_at"])
        return _change_of(made) if made else None
    shortened = sum(before["cuts"].get(key) != cut for key, cut in after["cuts"].items())
    covered = after["summary"]["covered"] if after["summary"] else 0
    covered = max(0, covered - (old["covered"] if old else 0))
    if not (new or covered or shortened):  # the same change, made again when a call was replayed
        return None
    if made is not None and made != before.get("change") and not is_other:
        done = _change_of(made)  # the newest of those in between; a replay may decide otherwise
        covered, shortened = max(covered, done.summarized), max(shortened, done.shortened)
        return replace(done, summarized=covered, shortened=shortened)
    if last is not None:
        return Change(last["reason"], covered, shortened, last["created_at"])
    return Change("cut", 0, shortened)


def _change_of(made: ChangeMade) -> Change:
    tokens = made["before"], made["after"]
    return Change(made["reason"], made["summarized"], made["shortened"], made["at"], *tokens)


def planned_change(context: ContextParts, plan: Plan) -> Change | None:
    """Return what a plan would change, or None if it changes nothing.

    Args:
        context: The conversation for which the plan was made.
        plan: The plan.
    """
    if plan.reason is None:
        return None
    folded = sum(len(group.source.messages) for group in context.tail[: plan.fold])
    shortened = len(plan.cuts.keys() - context.cuts.keys())
    return Change(plan.reason, folded, shortened, None, plan.before, plan.after)


def _divided(total: int, weights: Sequence[int]) -> list[int]:
    """Return whole numbers that add up to `total`, in the proportion of their weights.

    Example:
        >>> _divided(10, [1, 1, 1])
        [3, 4, 3]
    """
    whole = sum(weights)
    if not whole:
        return [total, *(0 for _ in weights[1:])]
    edges = [round(total * edge / whole) for edge in accumulate(weights, initial=0)]
    return [end - start for start, end in pairwise(edges)]


def _part(name: str, tokens: int, children: Mapping[str, int]) -> Part:
    """Return a part whose tokens are divided among children, by the tokens of each one alone."""
    shares = zip(children, _divided(tokens, [*children.values()]), strict=False)
    return Part(name, tokens, tuple(Part(child, share) for child, share in shares))


def _part_tree(context: ContextParts, parts: Mapping[str, int], tokens: int) -> Part:
    count = context.counter.message
    own = count(context.system) if context.system is not None else 0
    system = {"text": own, "around": context.counter.overhead, "start of the reply": REPLY_TOKENS}
    lines = sum(
        context.block_tokens(group)
        for group in context.tail
        if any(role_of(message) == "tool" for message in group.messages)
    )
    recalled = {"recalled": parts["recalled"] - lines, "earlier lines": lines}
    blocks = {**recalled, "notes": parts["notes"]}
    kept: dict[str, int] = {}
    for group in context.kept:
        for message in apply_cuts(group.messages, context.cuts):
            name = "first request" if message.id == context.first_request else "kept messages"
            kept[name] = kept.get(name, 0) + count(message)
    pins = max(0, parts["pinned"] - sum(kept.values())) if context.pins else 0
    return Part(
        "request",
        tokens,
        (
            _part("system", parts["system"], {k: size for k, size in system.items() if size}),
            Part("tools", parts["tools"]),
            _part("pinned", parts["pinned"], {**kept, **({"pins": pins} if pins else {})}),
            _part("summary", parts["summary"], _summary_sizes(context)),
            _part("memory_block", parts["memory_block"], {k: n for k, n in blocks.items() if n}),
            _part("tail", parts["tail"], _tail_sizes(context)),
        ),
    )


def _summary_sizes(context: ContextParts) -> dict[str, int]:
    """Return the relative size of each text of the summary."""
    sizes: dict[str, int] = {}
    for entry in context.summary["entries"] if context.summary else ():
        sizes[f"entry {entry['id']}"] = sum(map(len, log_texts([entry])))
    if context.todos:
        sizes["to-do list"] = len(context.todos)
    if context.left_out:
        sizes["marker"] = len(LEFT_OUT)
    return sizes


def _tail_sizes(context: ContextParts) -> dict[str, int]:
    names = {"human": "human messages", "ai": "model messages", "tool": "tool results"}
    sizes: dict[str, int] = {}
    for group in context.tail:
        for message in apply_cuts(group.messages, context.cuts):
            name = names.get(role_of(message), "other messages")
            name = "shortened messages" if (message.id or "") in context.cuts else name
            sizes[name] = sizes.get(name, 0) + context.counter.message(message)
    return sizes


def _summarized(context: ContextParts, state: MemoryState) -> tuple[SummarizedMessages, ...]:
    entries = state["summary"]["entries"] if state["summary"] else []
    shown = {entry["id"] for entry in context.summary["entries"]} if context.summary else set()
    return tuple(
        SummarizedMessages(
            entry=entry["id"],
            messages=entry["covered"],
            tokens=entry["tokens"],
            model=entry["model"],
            reason=entry["reason"],
            created_at=entry["created_at"],
            lines=lines_of(entry),
            shown=entry["id"] in shown,
        )
        for entry in entries
    )


def lines_of(entry: SummaryEntry) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the lines of an entry with the references of messages that each of them names."""
    lines = entry["text"].splitlines()
    return tuple((line, tuple(REFERENCES.findall(line))) for line in lines)


def _shortened(context: ContextParts) -> tuple[ShortenedMessage, ...]:
    count = context.counter.message
    return tuple(
        ShortenedMessage(
            id=message.id or "",
            reference=reference(message.id),
            name=speaker_of(role_of(message), message.name),
            before=count(message),
            after=count(apply_cut(message, context.cuts[message.id or ""])),
        )
        for group in (*context.kept, *context.tail)
        for message in group.messages
        if (message.id or "") in context.cuts
    )


def _recalled(context: ContextParts) -> tuple[RecalledBlock, ...]:
    return tuple(
        RecalledBlock(
            beside=reference(message.id),
            tokens=context.block_tokens(group),
            messages=tuple(block["ids"]),
            notes=block.get("kept_ids", {}),
            scores=block.get("scores", {}),
            named=tuple(block.get("named", ())),
        )
        for group in (*context.kept, *context.tail)
        for message in group.messages
        if (block := context.blocks.get(message.id or ""))
    )
