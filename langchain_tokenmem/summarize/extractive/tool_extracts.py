"""Extracts of tool calls that stand behind the notes of a model: what it did not copy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from langchain_tokenmem.summarize.base import Summary, SummaryRequest
from langchain_tokenmem.summarize.extractive.lines import Line
from langchain_tokenmem.summarize.extractive.selection import best_lines
from langchain_tokenmem.summarize.extractive.summarizer import lines_for

HEADING = "## Tool calls"
"""Line before the extracts."""

_FEWEST = 16
"""Tokens below which extracts say too little for their heading."""


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
