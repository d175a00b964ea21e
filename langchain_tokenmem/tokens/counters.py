"""Token counters: their interface, one with a vocabulary, estimates, and which one a model has."""

from __future__ import annotations

import functools
import hashlib
import logging
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import orjson
from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.argument_checks import checked_parts
from langchain_tokenmem.core.budget import REPLY_TOKENS
from langchain_tokenmem.core.chat_models import NAME_START, model_name, models_of
from langchain_tokenmem.tokens.content import as_mapping, message_tokens, reported_reasoning
from langchain_tokenmem.tokens.encodings import count_tokens, find_encoding
from langchain_tokenmem.tokens.media import ImageRule
from langchain_tokenmem.tokens.tool_schemas import FUNCTIONS_END, openai_tool, tool_tokens

if TYPE_CHECKING:
    import tiktoken
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.runnables import Runnable


Method = Literal["exact", "provider", "corrected", "estimate"]


@dataclass(frozen=True)
class TokenCount:
    """A token count with its method and accuracy.

    Attributes:
        tokens: The count.
        method: `exact` (the model's own vocabulary), `provider` (counted by the provider),
            `corrected` (an estimate, corrected by reported usage) or `estimate`.
        accuracy: Documented relative error of the method as a fraction: 0.0 for exact text.
    """

    tokens: int
    method: Method
    accuracy: float

    @property
    def is_estimate(self) -> bool:
        """Whether it is an estimate, corrected or not."""
        return self.method in {"corrected", "estimate"}

    def __int__(self) -> int:
        return self.tokens


class TokenCounter(Protocol):
    """Counts the tokens of texts, messages and tool schemas.

    `count(messages, tools=t)` is the sum of `message(m)` over `messages`, plus `tools(t)`, plus a
    constant for the reply's priming, so that callers can add and subtract messages. Only the
    `count` of a `ProviderCounter` asks a provider.

    Example:
        >>> from langchain_tokenmem.counting import TokenCounter, counter_for
        >>> counter: TokenCounter = counter_for("gpt-4o")
        >>> counter.text("hello")
        1
    """

    @property
    def id(self) -> str:
        """Name of the vocabulary and rules; part of every cache key."""

    @property
    def method(self) -> Method:
        """Method of its counts of messages: see `TokenCount`."""

    def text(self, text: str) -> int:
        """Return the tokens of a text."""

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""


def checked_counter(counter: TokenCounter | None) -> TokenCounter | None:
    """Return a counter of the application if it has the methods of one, or None for None.

    Raises:
        ConfigurationError: When a method is missing.
    """
    if counter is None:
        return None
    line = 'TokenMemory(counter=counter_for("gpt-4o")), or a class like TokenCounter'
    return checked_parts(counter, ("text", "message", "tools"), "counter", line)


@dataclass(frozen=True)
class Family:
    """Models that count alike.

    Attributes:
        names: What their names begin with, after provider prefixes; a regular expression.
        encoding: The vocabulary to count with.
        accuracy: Relative error of a text's count; 0.0 if the vocabulary is their own.
        scale: Factor on every text's count.
        image_rule: Formula that counts images.
    """

    names: str
    encoding: str = "o200k_base"
    accuracy: float = 0.0
    scale: float = 1.0
    image_rule: ImageRule = "largest"


_DEFAULT = Family("")

# Changes whenever a rule of content.py or media.py changes a count.
_RULES = "r2"


class TiktokenCounter:
    """Counts with a tiktoken vocabulary: exact if it is the model's own.

    Messages are counted by the rules of `content`, and each content only once.

    Args:
        encoding: The vocabulary (see `encodings.find_encoding`).
        family: The models that it counts for.

    Attributes:
        id: Names vocabulary and rules; part of every cache key.
        method: `exact` if the vocabulary is the model's own, else `estimate`.
        accuracy: That of the family.

    Example:
        >>> counter = TiktokenCounter(find_encoding("o200k_base"))
        >>> from langchain_core.messages import HumanMessage
        >>> counter.count([HumanMessage("hi")]).tokens
        8
    """

    def __init__(self, encoding: tiktoken.Encoding, family: Family = _DEFAULT) -> None:
        factor = f"/x{family.scale:g}" if family.scale != 1 else ""
        self.id: Final = f"{encoding.name}/{_RULES}/{family.image_rule}{factor}"
        self.method: Final[Method] = "estimate" if family.accuracy else "exact"
        self.accuracy: Final = family.accuracy
        self._encoding = encoding
        self._family = family
        self._messages = CountCache()
        self._tools = CountCache(1_024)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.method}>"

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""
        tokens = count_tokens(self._encoding, text)
        return tokens if self._family.scale == 1 else math.ceil(tokens * self._family.scale)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""
        key = message_key(message)
        tokens: int | None = self._messages.get(key)
        if tokens is None:
            tokens = message_tokens(message, self.text, self._family.image_rule)
            self._messages.put(key, tokens)
        return tokens

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""
        return FUNCTIONS_END + sum(map(self._tool, tools)) if tools else 0

    def _tool(self, tool: Any) -> int:
        key = _tool_key(tool)
        known: tuple[Any, int] | None = self._tools.get(key)
        if known is None:
            # Keep the tool itself: while it lives, no other one has the identity in the key.
            known = (tool, tool_tokens(tool, self.text))
            self._tools.put(key, known)
        return known[1]

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request.

        Args:
            messages: The messages, in order; may be empty.
            tools: Tools of the request; their schemas are counted.

        Returns:
            The sum of `message(m)`, `tools(tools)` and 3 tokens for the reply's priming.
        """
        tokens = REPLY_TOKENS + self.tools(tools) + sum(map(self.message, messages))
        return TokenCount(tokens, self.method, self.accuracy)


def _tool_key(tool: Any) -> Hashable:
    # Takes half a second for tracing clients; already imported if there are tools.
    from langchain_core.tools import BaseTool  # noqa: PLC0415

    if isinstance(tool, dict):
        written = to_json(tool)
        return len(written), hash(written)
    if isinstance(tool, BaseTool):
        return id(tool), tool.name, tool.description, id(tool.args_schema)
    return id(tool)


CORRECTED_ACCURACY = 0.06
"""Relative error of 95 of 100 requests after three replies (docs/counting.md)."""


class CorrectedCounter:
    """Counts as an estimating counter does, times a ratio.

    Args:
        counter: The estimating counter.
        ratio: Tokens that the provider reported per estimated token.
    """

    def __init__(self, counter: TokenCounter, ratio: float) -> None:
        self._counter = counter
        self._ratio = ratio
        self.id = f"{counter.id}/{ratio:g}"
        self.method: Method = "corrected"

    def text(self, text: str) -> int:
        """Return the tokens of a bare text."""
        return math.ceil(self._ratio * self._counter.text(text))

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of one message with its frame."""
        return round(self._ratio * self._counter.message(message))

    def tools(self, tools: Sequence[Any] | None) -> int:
        """Return the tokens of tool schemas; 0 for none."""
        return round(self._ratio * self._counter.tools(tools))

    def count(
        self, messages: Sequence[BaseMessage], *, tools: Sequence[Any] | None = None
    ) -> TokenCount:
        """Return the tokens of a whole request."""
        total = REPLY_TOKENS + self.tools(tools) + sum(map(self.message, messages))
        return TokenCount(total, self.method, CORRECTED_ACCURACY)


_LONGEST_KEPT = 64
"""Characters from which a text is keyed by length and hash: the cache keeps no texts alive."""


class CountCache(dict[Hashable, Any]):
    """A map from content to tokens, shared by threads, that is emptied when it is full.

    Messages are mutable, so a message's identity is no key: a key contains what is counted. For
    plain text that costs one tuple (Python caches the hash of a string in the string); for blocks
    and tool calls one JSON dump.

    A view looks up thousands of messages: a hit is one look-up in a dict, 8 times cheaper than in
    an LRU in Python, and needs no lock. Once in 32,768 new messages those in use are counted again.

    Full of messages it takes 8 MB; with their texts, and twice the entries, it took 37 MB, most of
    a server's growth in its first 20,000 turns.

    Args:
        most: Maximum number of entries.

    Example:
        >>> cache = CountCache(1_000)
        >>> cache.put("key", 5)
        >>> cache.get("key")
        5
    """

    def __init__(self, most: int = 32_768) -> None:
        super().__init__()
        self._most = most

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value under a key."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value


def message_key(message: BaseMessage) -> Hashable:
    """Return the key of a message; it can raise for what no provider would accept."""
    fields = message.__dict__
    content = fields.get("content")
    if (
        type(content) is not str
        or fields.get("tool_calls")
        or fields.get("invalid_tool_calls")
        or fields.get("additional_kwargs")
    ):
        return _structured_key(fields)
    kind = fields.get("role") or fields.get("type")
    text = content if len(content) <= _LONGEST_KEPT else text_key(content)
    return kind, text, fields.get("name"), fields.get("tool_call_id")


def text_key(text: str) -> Hashable:
    """Return a small key for a long text.

    Python's string hash (SipHash, keyed per process, 64 bits) is computed once per string object;
    a digest would be computed on every look-up. A collision would need equal lengths as well and
    would cost one wrong count.
    """
    return len(text), hash(text)


_COUNTED = ("content", "role", "type", "name", "tool_call_id", "tool_calls", "invalid_tool_calls")
_COUNTED_EXTRAS = [
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "audio",
]


def _structured_key(fields: Mapping[str, Any]) -> Hashable:
    """Return the key of a message with blocks, tool calls or extras."""
    counted = [fields.get(key) for key in _COUNTED]
    counted.append(reported_reasoning(fields))
    if extra := as_mapping(fields.get("additional_kwargs")):
        counted += [extra.get(key) for key in _COUNTED_EXTRAS]
    written = to_json(counted)
    return written if len(written) <= _LONGEST_KEPT else (len(written), hash(written))


def to_json(value: Any) -> bytes | str:
    """Return a value as JSON, or as its `repr` if JSON cannot express it (surrogates, cycles)."""
    try:
        return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# Parts of a message that are sent to no provider.
_NOT_SENT = {"id", "response_metadata", "usage_metadata", "artifact"}


def request_digest(
    messages: Sequence[BaseMessage], tools: Sequence[Any] | None, *around: str
) -> bytes:
    """Return the hash of a request: of everything in it that may be sent to a provider.

    Args:
        messages: Its messages.
        tools: Its tools.
        around: What else distinguishes requests: provider, model.
    """
    sent = [
        {name: value for name, value in vars(message).items() if name not in _NOT_SENT}
        for message in messages
    ]
    written = to_json([around, sent, [*map(openai_tool, tools or ())]])
    if isinstance(written, str):
        written = written.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(written, digest_size=16).digest()


logger = logging.getLogger(__name__)


# First match wins. OpenAI's vocabularies: tiktoken/model.py (gpt-oss's o200k_harmony has o200k's
# ranks, other special tokens). The factors of the others are on the safe side of published
# comparisons: Claude has 16 % more tokens than GPT-4o for English and 30 % for Python (VentureBeat,
# "Hidden costs in AI deployment", May 2025); Llama 3, Qwen, DeepSeek and Mistral have vocabularies
# of 128k to 152k entries, about cl100k's, and are coarser outside English.
_FAMILIES = (
    Family(r"(?:chat)?gpt-4o|gpt-4\.[15]|gpt-5|o[134]\b|codex", image_rule="openai"),
    Family(r"gpt-oss"),
    Family(r"gpt-4|gpt-3\.?5|text-embedding", "cl100k_base", image_rule="openai"),
    Family(r"claude", accuracy=0.25, scale=1.3, image_rule="anthropic"),
    Family(r"gemini|gemma", accuracy=0.20, scale=1.1, image_rule="gemini"),
    Family(
        r"(?:meta-|codel)?llama|mistral|mixtral|ministral|magistral|codestral|devstral|pixtral|"
        r"qwen|qwq|deepseek|grok|command|glm|kimi|phi|nova",
        accuracy=0.25,
        scale=1.15,
    ),
)
_UNKNOWN = Family("", accuracy=0.25)


def counter_for(
    model: BaseLanguageModel[Any] | Runnable[Any, Any] | str | None = None,
    *,
    nameless: str | None = None,
) -> TokenCounter:
    """Return the counter of a model.

    OpenAI's models are counted exactly with their own vocabulary, models of other vendors with
    o200k_base times a factor on the safe side, and unknown models with plain o200k_base, both as
    estimates. If a call may reach models of several vocabularies (`with_fallbacks`), the one with
    the most tokens is used, as an estimate. The first call reads the vocabulary (about half a
    second, blocking); equal names share one counter and its cache.

    Args:
        model: A chat model, also inside bindings, fallbacks or a sequence, or a model's name; None
            for exact counts of o200k_base.
        nameless: Name of the model whose vocabulary is used, as an estimate, for a chat model
            without a name.

    Returns:
        The counter.

    Example:
        >>> counter_for("gpt-4o").method
        'exact'
    """
    if model is None:
        return _counter(_DEFAULT)
    if isinstance(model, str):
        return _counter(_family_of(model))
    families = {_family_of_model(one, nameless) for one in models_of(model)}
    family = max(families, key=lambda one: (one.scale, one.encoding == "cl100k_base", one.accuracy))
    if len({(one.encoding, one.scale, bool(one.accuracy)) for one in families}) > 1:
        family = _as_estimate(family)
    return _counter(family)


def _family_of_model(model: Any, nameless: str | None) -> Family:
    name = model_name(model)
    if name:
        return _family_of(name)
    return _as_estimate(_family_of(nameless)) if nameless else _UNKNOWN


def _as_estimate(family: Family) -> Family:
    return replace(family, accuracy=max(family.accuracy, _UNKNOWN.accuracy))


@functools.lru_cache(maxsize=256)
def _family_of(name: str) -> Family:
    for family in _FAMILIES:
        if re.search(f"{NAME_START}(?:{family.names})", name.lower()):
            return family
    logger.warning(
        "The vocabulary of model %r is not known: its tokens are estimated from o200k_base. "
        "Pass counter= for exact numbers.",
        name,
    )
    return _UNKNOWN


@functools.cache
def _counter(family: Family) -> TokenCounter:
    return TiktokenCounter(find_encoding(family.encoding), family)
