"""Correction of the running summary after edits: an entry tells the words that stand there now.

The entry is written again without a model, at once: words that were taken back must not wait in a
request for a summarizer.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.edited_words import CheckedMessages, digest_of_words
from langchain_tokenmem.core.working_notes.edited_items import without_edited_items
from langchain_tokenmem.state import MemoryState, SummaryEntry
from langchain_tokenmem.summarize.base import SummaryRequest
from langchain_tokenmem.summarize.extractive.summarizer import ExtractiveSummarizer

logger = logging.getLogger(__name__)

EDITED = "edited"
"""Reason of an entry that was written again."""


def with_current_words(
    messages: Sequence[BaseMessage],
    state: MemoryState,
    count_text: Callable[[str], int],
    checked: CheckedMessages | None = None,
) -> MemoryState:
    """Return the state with a summary that tells the words of the messages as they are now.

    Memory blocks that show one of these messages, and notes that were read from one, go as well.

    Args:
        messages: The conversation, oldest first; entries whose messages are not all there stay.
        state: The memory's state.
        count_text: Counts the tokens of a text.
        checked: Messages of this conversation that were compared before; None for none.

    Returns:
        The state; the same object where nothing that it covers was edited.
    """
    summary = state["summary"]
    if summary is None:
        return state
    edited = (checked or CheckedMessages()).edited_entries(summary, messages)
    if not edited:
        return state
    logger.info("Messages that the running summary covers were edited: it tells their new words.")
    entries = [*summary["entries"]]
    for place, numbered in edited.items():
        prior = "\n\n".join(filter(None, (entry["text"] for entry in entries[:place])))
        entries[place] = _written_again(entries[place], numbered, state, prior, count_text)
    known = {number: m for numbered in edited.values() for number, m in numbered.items()}
    ids = {message.id for message in known.values()}
    new: MemoryState = {
        **state,
        "summary": {**summary, "entries": entries},
        "blocks": {key: one for key, one in state["blocks"].items() if not ids & {*one["ids"]}},
    }
    modes = new.get("modes")
    return {**new, "modes": without_edited_items(modes, known)} if modes else new


def _written_again(
    entry: SummaryEntry,
    numbered: Mapping[int, BaseMessage],
    state: MemoryState,
    prior: str,
    count_text: Callable[[str], int],
) -> SummaryEntry:
    """Return an entry about the same messages, at most as long, with their words of now.

    Its id follows from what it tells, so that each call that makes it makes the same one.
    """
    words = digest_of_words(numbered.items())
    new: SummaryEntry = {**entry, "words": words or ""}
    if not entry["text"]:
        return new
    whole = {*state["kept"]} - state["cuts"].keys()  # they stand in the request themselves
    told = {n: message for n, message in numbered.items() if message.id not in whole} or numbered
    summary = ExtractiveSummarizer().summarize(
        SummaryRequest([*told.values()], entry["tokens"], count_text, prior=prior or None)
    )
    numbers = [*told]
    name = f"{entry['id']}\n{words}\n{summary.text}"
    return {
        **new,
        "id": hashlib.blake2b(name.encode(), digest_size=8).hexdigest(),
        "text": summary.text,
        "tokens": count_text(summary.text),
        "model": summary.model,
        "prompt_version": summary.prompt_version,
        "reason": EDITED,
        "sources": [[numbers[place] for place in line] for line in summary.sources],
    }
