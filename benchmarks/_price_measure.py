"""Measurement of one recording in one system: price and knowledge of each request.

The definitions of price, what is sent again, coverage, far, and whole fresh results stand in
`langchain_tokenmem.cli.measures`, which `tokenmem replay` uses, too. Here tokens are those of
o200k_base without tool schemas, counted outside of every system; sums go over the calls that are
pooled; a crashed call is in none of the prices. Added here:

- **summaries** are part of the price: 1 for each token that a summary's writer reads (0.1 for the
  beginning that it shares with R(i-1), where it sends the same tools), 5 for each that it writes.
- **1,024**: the price where a common beginning of fewer tokens counts as 0, above and below.
- **blocks**: the price where s(i) counts whole content blocks only, and every other token of a
  request is written to the cache at 1.25, above and below.
- **bound**: as coverage, but a literal counts only in a message that stands whole as it was said,
  or on a line that also holds its key, its command or a path from a line of its source.
- **lift** = far - far without the texts of the summaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

from _price_bound import is_bound, keys_in
from _price_citing import CitingModel, SummaryCall
from _price_recordings import time_of_last
from _price_systems import Ask, without_summary
from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tokenmem.cli.audit import duplicate_faults, order_faults, pairing_faults
from langchain_tokenmem.cli.measures import (
    MessageTexts,
    are_whole,
    far_literals,
    held_literals,
    needed_literals,
    price,
    sent_again,
)
from langchain_tokenmem.cli.replay import lengths_at_calls

WRITTEN, BLOCK_WRITE = 5.0, 1.25
SMALLEST_CACHE = 1_024
CACHE_LIVES_S = 300
"""Seconds after which a cached prefix is gone, with `--gaps`: then every token costs 1."""


@dataclass(slots=True)
class Tally:
    """Sums over calls: numbers that are added to those of other calls.

    Attributes:
        cost: Price of the requests and summaries, in tokens; `whole` is that of sending all.
        covered: Coverage, added up over the calls that have literals, `covering` of them; `far`
            and `lift` over `having_far` calls.
        whole_results: Calls whose new results stand uncut, of `with_results`.
    """

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    whole: float = 0.0
    cost_1024: float = 0.0
    whole_1024: float = 0.0
    cost_blocks: float = 0.0
    whole_blocks: float = 0.0
    new_tokens: int = 0
    resent: int = 0
    changes: int = 0
    summaries: int = 0
    covering: int = 0
    covered: float = 0.0
    bound: float = 0.0
    having_far: int = 0
    far: float = 0.0
    lift: float = 0.0
    with_results: int = 0
    whole_results: int = 0
    over: int = 0
    illegal: int = 0
    crashes: int = 0

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass
class Run:
    """One recording in one system, with what the call before left behind.

    Attributes:
        texts: Counts and words of the messages.
        ask: The system.
        model: Its summarizing model.
        window: Tokens that a request may have.
        reasons: Tokens that were sent again, by the reason that the system names.
    """

    texts: MessageTexts
    ask: Ask
    model: CitingModel
    window: int
    reasons: Counter[str] = field(default_factory=Counter)
    _request: Sequence[BaseMessage] = ()
    _history: Sequence[BaseMessage] = ()
    _seen: int = 0

    def play(self, messages: Sequence[BaseMessage]) -> Iterator[Tally]:
        """Yield a tally for each recorded call."""
        for place in lengths_at_calls(messages):
            yield self.call(messages[:place], messages[place])

    def call(self, history: Sequence[BaseMessage], action: BaseMessage) -> Tally:
        """Ask the system for one request and measure it.

        Args:
            history: The messages so far.
            action: What the model has answered in the recording.
        """
        tally = Tally(calls=1)
        fresh = [m for m in history[self._seen :] if isinstance(m, ToolMessage)]
        self._seen = len(history)
        request: list[BaseMessage] = []
        try:
            request = self.ask(history)
        except Exception:  # noqa: BLE001  # whatever it raises, the application has no request
            self.model.take_calls()
            tally.crashes = 1
        else:
            self._price(tally, history, request)
            checks = (order_faults, pairing_faults, duplicate_faults)
            tally.illegal = int(any(check(request) for check in checks))
        self._know(tally, history, [] if tally.over else request, action)
        if fresh:
            tally.with_results, tally.whole_results = 1, int(are_whole(fresh, request))
        return tally

    def _price(
        self, tally: Tally, history: Sequence[BaseMessage], request: Sequence[BaseMessage]
    ) -> None:
        texts, calls = self.texts, self.model.take_calls()
        tokens, whole = texts.tokens(request), texts.tokens(history)
        before = texts.tokens(self._history)
        shared, blocks, keeps = texts.shared(self._request, request)
        if self._is_cold(history):
            before = shared = blocks = 0
        writing = sum(map(self._price_of_summary, calls))
        tally.tokens = tokens
        tally.cost = price(tokens, shared) + writing
        tally.whole = price(whole, before)
        tally.cost_1024 = price(tokens, _at_least(shared)) + writing
        tally.whole_1024 = price(whole, _at_least(before))
        tally.cost_blocks = price(tokens, blocks, write=BLOCK_WRITE) + writing
        tally.whole_blocks = price(whole, before, write=BLOCK_WRITE)
        tally.over = int(tokens > self.window)
        tally.changes = int(bool(self._request) and not keeps)
        tally.summaries = len(calls)
        tally.new_tokens = whole - before
        tally.resent = sent_again(tokens, shared, tally.new_tokens)
        if tally.changes:
            named = getattr(self.ask, "reasons", None)
            if named is not None:
                self.reasons[" + ".join(dict.fromkeys(named)) or "no reason"] += tally.resent
        self._request, self._history = request, history

    def _is_cold(self, history: Sequence[BaseMessage]) -> bool:
        """Return whether the call comes after a pause that no cache outlives."""
        last, now = time_of_last(self._history), time_of_last(history)
        pause = (now - last).total_seconds() if last and now else 0
        return pause > CACHE_LIVES_S

    def _price_of_summary(self, call: SummaryCall) -> float:
        shared = self.texts.shared(self._request, call.prompt)[0] if call.with_tools else 0
        written = self.texts.counter.text(call.text)
        return price(self.texts.tokens(call.prompt), shared) + WRITTEN * written

    def _know(
        self,
        tally: Tally,
        history: Sequence[BaseMessage],
        request: Sequence[BaseMessage],
        action: BaseMessage,
    ) -> None:
        texts = self.texts
        needed = needed_literals(texts, history, action)
        shown = [texts.sent(message).plain_text for message in request]
        own = [without_summary(message) for message in request]
        held = held_literals(texts, request, needed)
        far = far_literals(texts, history, needed, self.window)
        far_held = [literal for literal in far if literal in held]
        lifted = [literal for literal in far_held if not texts.any_holds(own, literal)]
        if needed:
            tally.covering, tally.covered = 1, len(held) / len(needed)
            tally.bound = sum(self._is_bound(one, shown, history) for one in held) / len(needed)
        if far:
            tally.having_far, tally.far = 1, len(far_held) / len(far)
            tally.lift = len(lifted) / len(far)

    def _is_bound(self, literal: str, shown: list[str], history: Sequence[BaseMessage]) -> bool:
        holding = [text for text in shown if self.texts.holds(text, literal)]
        sources = [
            text
            for m in history
            if self.texts.holds(text := self.texts.sent(m).plain_text, literal)
        ]
        if not set(holding).isdisjoint(sources):
            return True
        keys = {key for text in sources for key in keys_in(text, literal)}
        return any(is_bound(text, literal, keys) for text in holding)


def _at_least(shared: int) -> int:
    return shared if shared >= SMALLEST_CACHE else 0
