"""Search in words that edits superseded or hid: they are in no index, and read for the question."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_tokenmem.core.search_units import Hit, IndexSource, Scope
from langchain_tokenmem.recall.base.text_parts import indexable_text
from langchain_tokenmem.recall.lexical.analysis import TextAnalyser
from langchain_tokenmem.recall.ranking.result_selection import LINE_TOKENS, SearchOptions
from langchain_tokenmem.storage.search_index import SearchIndex

_LEAST_SHARE = 0.2
"""Share of the question's terms that such words must have."""


def search_superseded(
    store: SearchIndex, analyser: TextAnalyser, query: str, scope: Scope
) -> list[Hit]:
    """Return superseded words that have terms of a question, best first.

    `metadata["superseded"]` of a hit is the version, 0 for the first words of a message.
    """
    wanted = set(analyser.query_terms(query))

    def share_of(source: IndexSource) -> float:
        terms = {*analyser.terms(indexable_text(source)), *analyser.about(source)}
        return len(wanted & terms) / len(wanted) if wanted else 0.0

    shares = [(share_of(source), source) for source in store.superseded(scope)]
    found = [(share, source) for share, source in shares if share >= _LEAST_SHARE]
    found.sort(key=lambda pair: (-pair[0], -pair[1].seq))
    return [Hit.of(source, score=share, lexical=share) for share, source in found]


def hits_that_fit(more: Sequence[Hit], found: Sequence[Hit], options: SearchOptions) -> list[Hit]:
    """Return what of superseded words the options of a search leave room for."""
    left = options.max_tokens
    if left is not None:
        left -= sum(options.count_tokens(hit.text) + LINE_TOKENS for hit in found)
    kept: list[Hit] = []
    for hit in more:
        is_meant = options.among is None or hit.message_id in options.among
        if hit.message_id in options.exclude or not is_meant or options.metadata:
            continue
        cost = 0 if left is None else options.count_tokens(hit.text) + LINE_TOKENS
        if len(found) + len(kept) < options.k and (left is None or cost <= left):
            left = None if left is None else left - cost
            kept.append(hit)
    return kept
