"""Token counters: one with a tiktoken vocabulary, one that estimates."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.tokens.base import Method, TokenCount
from langchain_tokenmem.tokens.cache import CountCache, message_key, to_json
from langchain_tokenmem.tokens.content import MESSAGE_FRAME, message_tokens
from langchain_tokenmem.tokens.encodings import count_tokens
from langchain_tokenmem.tokens.estimate import ESTIMATE_ACCURACY, estimate_tokens
from langchain_tokenmem.tokens.expected_output import expected_output
from langchain_tokenmem.tokens.media import ImageRule
from langchain_tokenmem.tokens.schemas import FUNCTIONS_END, tool_tokens

if TYPE_CHECKING:
    import tiktoken

logger = logging.getLogger(__name__)

# How much of a message that cannot be read is looked at for a guess.
_GUESS_CHARACTERS = 100_000
# Changes whenever a rule of content.py, media.py or schemas.py changes a count.
_RULES = "r2"


class CounterOptions(TypedDict, total=False):
    """Options of both counters.

    Attributes:
        accuracy: Relative error of a text's count as a fraction; 0.0 for exact.
        scale: Factor on every text's count, for models whose vocabulary is coarser.
        image_rule: Formula that counts images.
    """

    accuracy: float
    scale: float
    image_rule: ImageRule


class _Counter:
    """Counts messages by the rules of `content`, given a way to count a text.

    Attributes:
        id: Names vocabulary and rules; part of every cache key.
        method: `exact` where the vocabulary is the model's own, else `estimate`.
        accuracy: Documented relative error of a text's count as a fraction; 0.0 for exact.
    """

    def __init__(
        self,
        name: str,
        text: Callable[[str], int],
        *,
        accuracy: float = 0.0,
        scale: float = 1.0,
        image_rule: ImageRule = "largest",
    ) -> None:
        self.id: Final = f"{name}/{_RULES}/{image_rule}" + (f"/x{scale:g}" if scale != 1 else "")
        self._count_text = text
        self.method: Final[Method] = "estimate" if accuracy else "exact"
        self.accuracy: Final = accuracy
        self._scale = scale
        self._image_rule: ImageRule = image_rule
        self._messages = CountCache()
        self._tools = CountCache(512)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.method}>"

    def text(self, text: str) -> int:
        """Return the tokens of a bare text; never raises."""
        tokens: int = _never_raise(
            lambda: self._count_text(text), lambda: estimate_tokens(str(text))
        )
        return tokens if self._scale == 1 else math.ceil(tokens * self._scale)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame; never raises."""
        return self._message(message)[0]

    def _message(self, message: BaseMessage) -> tuple[int, bool]:
        """Return the tokens of a message, and whether they were known."""
        try:
            key = message_key(message)
            tokens = self._messages.get(key)
        except Exception:  # noqa: BLE001  # anything can stand in a block: no key, counted each time
            key = tokens = None
        if tokens is not None:
            return tokens, True
        tokens = _never_raise(
            lambda: message_tokens(message, self.text, self._image_rule),
            lambda: MESSAGE_FRAME + self.text(repr(vars(message))[:_GUESS_CHARACTERS]),
        )
        if key is not None:
            self._messages.put(key, tokens)
        return tokens, False

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none; never raises."""
        if not tools:
            return 0
        return FUNCTIONS_END + sum(map(self._tool, tools))

    def _tool(self, tool: Any) -> int:
        key = _never_raise(lambda: _tool_key(tool), lambda: None)
        _, tokens = self._tools.get(key) or (tool, None)
        if tokens is None:
            tokens = _never_raise(
                lambda: tool_tokens(tool, self.text),
                lambda: estimate_tokens(repr(tool)[:_GUESS_CHARACTERS]),
            )
            # The tool itself is kept: while it lives, its identity in the key belongs to no other.
            if key is not None:
                self._tools.put(key, (tool, tokens))
        return int(tokens)

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request; never raises.

        Args:
            messages: The messages, in order; may be empty.
            tools: Tools of the request; their schemas are counted.

        Returns:
            The sum of `message(m)`, `tools(tools)` and 3 tokens for the reply's priming.
        """
        started = time.perf_counter()
        total, cached = REPLY_TOKENS + self.tools(tools), True
        for message in messages:
            tokens, known = self._message(message)
            total += tokens
            cached = cached and known
        output = _never_raise(lambda: expected_output(messages, self.message), lambda: None)
        latency = time.perf_counter() - started
        return TokenCount(total, self.method, self.accuracy, cached, latency, output)


class TiktokenCounter(_Counter):
    """Counts with a tiktoken vocabulary: exact where it is the model's own.

    Args:
        encoding: The vocabulary (see `encodings.find_encoding`).
        options: See `CounterOptions`.

    Example:
        >>> counter = TiktokenCounter(find_encoding("o200k_base"))
        >>> counter.count([HumanMessage("hi")]).tokens
        8
    """

    def __init__(self, encoding: tiktoken.Encoding, **options: Unpack[CounterOptions]) -> None:
        super().__init__(encoding.name, functools.partial(count_tokens, encoding), **options)


class EstimateCounter(_Counter):
    """Counts without a vocabulary: by script and length of the pieces of a text.

    Args:
        options: See `CounterOptions`; the accuracy is never better than the estimate's own.

    Example:
        >>> EstimateCounter().count([HumanMessage("hi")]).method
        'estimate'
    """

    def __init__(self, **options: Unpack[CounterOptions]) -> None:
        options["accuracy"] = max(options.get("accuracy", 0.0), ESTIMATE_ACCURACY)
        super().__init__("estimate", estimate_tokens, **options)


def _tool_key(tool: Any) -> Hashable:
    # Half a second of tracing clients, already there for whoever has tools.
    from langchain_core.tools import BaseTool  # noqa: PLC0415

    if isinstance(tool, dict):
        written = to_json(tool)
        return len(written), hash(written)
    if isinstance(tool, BaseTool):
        return id(tool), tool.name, tool.description, id(tool.args_schema)
    return id(tool)


def is_interruption(error: BaseException) -> bool:
    """Return whether an error is meant for the caller: KeyboardInterrupt, SystemExit, cancellation.

    tiktoken's Rust core panics with `pyo3_runtime.PanicException`, a BaseException that cannot be
    imported.
    """
    return not isinstance(error, Exception) and type(error).__name__ != "PanicException"


def _never_raise(compute: Callable[[], Any], guess: Callable[[], Any]) -> Any:
    """Return a count, or a guess: the one place that keeps "counting never raises"."""
    try:
        return compute()
    except BaseException as error:
        if is_interruption(error):
            raise
        _report_guess(f"{type(error).__name__}: {error}"[:200])
    try:
        return guess()
    except Exception:  # noqa: BLE001  # even `repr` may raise on what applications put into blocks
        return MESSAGE_FRAME


@functools.lru_cache(maxsize=64)
def _report_guess(what: str) -> None:
    logger.warning("Tokens were guessed where they could not be counted: %s", what)
