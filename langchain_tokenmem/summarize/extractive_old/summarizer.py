"""Extractive summarizer: deterministic, without a model, exact to the token.

It writes whole entries, and the extracts of tool calls behind those of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from langchain_tokenmem.background import in_own_thread
from langchain_tokenmem.core.facts.literals import words_of
from langchain_tokenmem.core.facts.reader import FactsReader
from langchain_tokenmem.core.facts.sentences import terms
from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive.chronicle import chronicle_lines
from langchain_tokenmem.summarize.extractive.condensing import condensed_lines
from langchain_tokenmem.summarize.extractive.selection import Line, best_lines
from langchain_tokenmem.summarize.extractive.worth import Weighting

HEADING = "## Tool calls"
"""Line before the extracts."""

_FEWEST = 16
"""Tokens below which extracts say too little for their heading."""


class ExtractiveSummarizer:
    """Writes an entry as a chronicle of verbatim extracts, without a model and without I/O.

    For each turn, in order: what the user asked or decided, what was done and how it ended, what
    came out of it, and what the assistant answered. Greetings, announcements, logs and repeated
    calls are left out. When the limit presses, what is worth least for its tokens goes first:
    sentences shrink to clauses, and verbatim literals go last.

    Entries are condensed into one (`SummaryRequest.condenses`) in the same way: the oldest give
    most, and the last outcome of a call stands for the ones before it.

    The instruction of a request raises the worth of the lines that share words with it.

    Example:
        ```python
        request = SummaryRequest(messages, max_tokens=400, count_text=len)
        ExtractiveSummarizer().summarize(request)
        ```
    """

    is_quick = True
    name = "extractive"
    prompt_version = "extractive-2"

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        """Return True: nothing is paid for it."""
        return bool(messages)

    def summarize(self, request: SummaryRequest) -> Summary:
        """Return one entry.

        Args:
            request: What to note, and the limit in tokens.

        Returns:
            The entry with the sources of its lines; its text is never over `request.max_tokens` by
            `request.count_text`, and empty only where not even one character fits.
        """
        written = best_lines(lines_for(request), request.max_tokens, request.count_text)
        text = "\n".join(text for text, _ in written)
        sources = tuple(places for _, places in written)
        return Summary(text, self.name, self.prompt_version, sources=sources)

    async def asummarize(self, request: SummaryRequest) -> Summary:
        """Return one entry, made on another thread.

        Args:
            request: See `summarize`.
        """
        return await in_own_thread(self.summarize, request)


def lines_for(request: SummaryRequest) -> list[Line]:
    """Return all lines that an entry could have, in their order."""
    reader = FactsReader()
    known, wanted = words_of(request.prior or ""), terms(request.instruction or "")
    weighting = Weighting(reader, frozenset(known), wanted)
    if request.condenses:
        return condensed_lines(request.messages, weighting)
    for place, message in enumerate(request.messages):
        reader.add(message, place)
    return chronicle_lines(reader, weighting, request.prior)


@dataclass(frozen=True)
class ToolExtracts:
    """Extracts of the tool calls of a batch, which share an entry with a model's notes.

    A model's notes keep decisions and reasons; of the files, commands, ids and values of a long run
    of tools they leave out most. These are read from the messages, so that none can be wrong.

    Attributes:
        request: The request for the entry.
        share: Share of the entry's tokens that is kept for them.
    """

    request: SummaryRequest
    share: float

    def for_model(self) -> SummaryRequest:
        """Return the request to the model: without the tokens that the extracts need."""
        most = int(self.share * self.request.max_tokens)
        size = self._size("\n".join(text for text, _ in self._written(self.request, most)))
        return replace(self.request, max_tokens=self.request.max_tokens - size)

    def behind(self, summary: Summary) -> Summary:
        """Return a summary with extracts behind its text, as far as the limit leaves room.

        What the text holds already is worth less there.
        """
        prior = "\n\n".join(filter(None, [self.request.prior, summary.text]))
        request, notes = replace(self.request, prior=prior), f"{summary.text}\n{HEADING}"
        room = request.max_tokens - request.count_text(f"{notes}\n") - 1
        while room >= _FEWEST and (written := self._written(request, room)):
            text = "\n".join([notes, *(text for text, _ in written)])
            over = request.count_text(text) - request.max_tokens
            if over <= 0:
                own = [()] * len(notes.splitlines())
                sources = (*own, *(places for _, places in written))
                return replace(summary, text=text, sources=sources)
            room -= over  # counts of parts need not add up to the count of the whole
        return summary

    def _written(self, request: SummaryRequest, most: int) -> list[tuple[str, tuple[int, ...]]]:
        lines: list[Line] = []
        if self.share > 0 and not request.condenses and most >= _FEWEST:
            lines = [line for line in lines_for(request) if line.is_step]
        return best_lines(lines, most, request.count_text) if lines else []

    def _size(self, text: str) -> int:
        return self.request.count_text(f"\n{HEADING}\n{text}") + 1 if text else 0
