"""What replay measures of requests: tokens, price under prompt caching, and literals in them.

Nothing of the package's own counters or facts is used, except the vocabulary (o200k_base, or the
one that `--model` names): a check that relies on the checked part proves nothing.

**Price.** A provider's prompt cache serves the beginning that a request shares with the one before.
For call i, R(i) is its request, H(i) the history before it, t(.) tokens, s(i) the tokens of the
common beginning of R(i-1) and R(i). Then

- **price** = sum[0.1 s(i) + t(R(i)) - s(i)] / sum[0.1 t(H(i-1)) + t(H(i)) - t(H(i-1))], relative to
  sending all of the history each time;
- **sent again** = sum[t(R(i)) - s(i) - (t(H(i)) - t(H(i-1)))], each at least 0, as a share of
  sum[t(H(i)) - t(H(i-1))]: tokens at full price that are not new.

A tenth for cached tokens is the factor in Anthropic's price list.

**Coverage.** A literal is what cannot be guessed: a path, an identifier, a number of three digits
or more, an address, or a quoted string with a capital or a digit in it. Dates and small counts are
left out.

- **coverage**: literals of the recorded answer that the request holds, as a share of those that the
  history holds and the application's system text does not; the mean over the calls that have such
  literals. A request over the window holds none.
- **far**: the same for the literals that are not in the newest 0.3 x window tokens of the history.
- **whole fresh results**: calls whose new tool results are all in the request, uncut, as a share of
  the calls with new tool results.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from tiktoken.model import encoding_name_for_model

from langchain_tokenmem.core.messages import well_formed
from langchain_tokenmem.tokens.encodings import PATTERNS, count_tokens, find_encoding

PER_MESSAGE = 4
"""Tokens of a message's frame: `<|im_start|>`, role, `<|im_sep|>`, `<|im_end|>`."""
PER_REQUEST = 3
"""Tokens that prime the answer."""

_DEFAULT = "o200k_base"

# OpenAI's cookbook, "How to count tokens with tiktoken", for gpt-4o.
_FUNCTION, _PROPERTIES, _PROPERTY, _ENUM, _ENUM_ITEM, _FUNCTIONS_END = 7, 3, 3, -3, 3, 12

CACHED = 0.1
"""Price of a token of the common beginning; every other token of a request costs 1."""

NEAR_SHARE = 0.3
"""Share of the window, at the end of the history, in which a literal is near."""

# Mail and paths are tried once in a run of signs: else a ruler costs the square of its length.
_WORD = re.compile(
    r"""
    https?://[^\s"'<>()\[\]{},]+                                # addresses
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                  # of mail
    | (?:(?<![\w.@+-])|(?=/))[~.]{0,2}/?[\w.@+-]*\w(?:/[\w.@+-]*\w)+  # paths
    | (?<![\w/])/[\w.@+-]*\w
    | \d{1,3}(?:,\d{3})+(?:\.\d+)?                               # numbers
    | [A-Za-z0-9]\w*(?:[.-]\w+)*                                # and identifiers
    """,
    re.VERBOSE,
)
_DATE = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T ]?\d\d?(?::\d\d)*.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}/\d\d/\d\d"
)
_NUMBER = re.compile(r"\d[\d.,-]*")
_IDENTIFIER = re.compile(r"\w*(?:_\w|[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])\w*|[A-Z]{3,}\w*")
_DOTTED = re.compile(
    r"[A-Za-z_]\w+(?:[.-]\w+)*\.[A-Za-z_]\w+|\w*\d\w*(?:[.-]\w+)+|\w+(?:-\w+)*-\w*\d\w*"
)
# A run is tried from its first backslash only: thousands of them would cost the square of that.
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\+[nrt]")
_BEFORE_MARK = re.compile(r"(?<!\\)\\+(?=[\"'/])")
_SHORTEST = 3
_LONGEST = 60


# --- tokens


class ReferenceCounter:
    """Counts the tokens of a request, text by text.

    Args:
        text_tokens: Counts the tokens of one text, exactly.
    """

    def __init__(self, text_tokens: Callable[[str], int]) -> None:
        self.text = cache(text_tokens)

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of a message: its frame, its text, its tool calls.

        Media have no count here; a vocabulary says nothing about them.
        """
        calls = sum(self.text(name) + self.text(args) for _, name, args in calls_of(message))
        return PER_MESSAGE + self.text(text_of(message)) + calls

    def messages(self, messages: Iterable[BaseMessage]) -> int:
        """Return the tokens of messages, without the request around them."""
        return sum(map(self.message, messages))

    def request(
        self, messages: Iterable[BaseMessage], tools: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """Return the tokens of a whole request."""
        return PER_REQUEST + self.messages(messages) + self.tools(tools)

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of tool schemas, by the formula that OpenAI has published."""
        return sum(map(self._tool, tools)) + _FUNCTIONS_END if tools else 0

    def _tool(self, tool: Mapping[str, Any]) -> int:
        function = tool.get("function", tool)
        total = _FUNCTION + self.text(f"{function.get('name')}:{_description(function)}")
        properties = (function.get("parameters") or {}).get("properties") or {}
        if properties:
            total += _PROPERTIES
        for name, schema in properties.items():
            total += _PROPERTY + self.text(f"{name}:{schema.get('type')}:{_description(schema)}")
            if options := schema.get("enum"):
                total += _ENUM + sum(_ENUM_ITEM + self.text(str(option)) for option in options)
        return total


def _description(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description") or "").removesuffix(".")


def text_of(message: BaseMessage) -> str:
    """Return every text in a message, including reasoning, with U+FFFD for lone surrogates."""
    content = message.content
    blocks = [content] if isinstance(content, str) else content
    return well_formed("\n".join(filter(None, map(_text_of_block, blocks))))


def _text_of_block(block: str | dict[Any, Any]) -> str:
    texts = [block] if isinstance(block, str) else map(block.get, ("text", "thinking", "reasoning"))
    return next((text for text in texts if isinstance(text, str)), "")


def calls_of(message: BaseMessage) -> list[tuple[str, str, str]]:
    """Return the tool calls of a message, invalid ones too, as (id, name, arguments)."""
    if not isinstance(message, AIMessage):
        return []
    valid = [
        (call["id"] or "", call["name"], json.dumps(call["args"], ensure_ascii=False))
        for call in message.tool_calls
    ]
    invalid = [
        (call["id"] or "", call["name"] or "", call["args"] or "")
        for call in message.invalid_tool_calls
    ]
    return [(key, name, well_formed(args)) for key, name, args in valid + invalid]


def written_calls(message: BaseMessage) -> list[str]:
    """Return the tool calls of a message as they are shown to a user."""
    return [f"{name}({args})" for _, name, args in calls_of(message)]


def reference_counter(model: str | None = None) -> ReferenceCounter:
    """Return an exact counter for a model, or for o200k_base if its name is not known."""
    name = _DEFAULT
    with suppress(KeyError):
        name = encoding_name_for_model(model or "")
    encoding = find_encoding(name if name in PATTERNS else _DEFAULT)
    return ReferenceCounter(partial(count_tokens, encoding))


# --- literals


def plain(text: str) -> str:
    """Return a text with the escapes of JSON undone, however deep: a line end ends a word."""
    if "\\" not in text:
        return text
    return _BEFORE_MARK.sub("", _ESCAPED_SPACE.sub("\n", text))


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts inside arguments, each with its key before it."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from leaves(one, str(inner))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from leaves(one, key)
    elif value is not None:
        yield key, str(value)


def plain_text(message: BaseMessage) -> str:
    """Return the text of a message, including its tool calls, as plain lines."""
    lines = [text_of(message)]
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            lines += [call["name"], *(f"{key}: {text}" for key, text in leaves(call["args"]))]
        lines += [f"{call['name']}\n{call['args']}" for call in message.invalid_tool_calls]
    return plain("\n".join(line for line in lines if line))


def is_literal(word: str) -> bool:
    """Return whether a word can only be copied, not guessed."""
    if len(word) < _SHORTEST or _DATE.fullmatch(word):
        return False
    if _NUMBER.fullmatch(word):
        return sum(map(str.isdigit, word)) >= _SHORTEST
    marks = "/" in word or "@" in word
    return marks or bool(_IDENTIFIER.fullmatch(word) or _DOTTED.fullmatch(word))


def find_literals(text: str) -> list[str]:
    """Return the literals of a text, in their order, each once.

    Example:
        >>> find_literals("Book EHGLP3 for 1,250 by 2024-05-20: edit src/app.py in 2 places")
        ['EHGLP3', '1,250', 'src/app.py']
    """
    words = (word.rstrip(".-") for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if is_literal(word)))


def literals_of_action(action: BaseMessage) -> list[str]:
    """Return the literals of the arguments of an action's tool calls, else of its text.

    Args:
        action: What the model said in the recording.
    """
    calls = action.tool_calls if isinstance(action, AIMessage) else []
    if not calls:
        return find_literals(plain(text_of(action)))
    found: dict[str, None] = {}
    for call in calls:
        for _, text in leaves(call["args"]):
            value = text.strip()
            if _SHORTEST < len(value) <= _LONGEST and "\n" not in value and _is_quotable(value):
                found[value] = None
            found |= dict.fromkeys(find_literals(plain(text)))
    return list(found)


def _is_quotable(value: str) -> bool:
    return not _DATE.fullmatch(value) and any(c.isupper() or c.isdigit() for c in value)


def places(text: str, literal: str) -> Iterator[int]:
    """Yield the places where a text contains a literal as whole words."""
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        if not (_joins(before) and _joins(literal[0])) and not (
            _joins(after) and _joins(literal[-1])
        ):
            yield start
        start = text.find(literal, start + 1)


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"


def holds(text: str, literal: str) -> bool:
    """Return whether a text contains a literal as whole words.

    Example:
        >>> holds("see app.py:12", "app.py"), holds("see myapp.py", "app.py")
        (True, False)
    """
    return next(places(text, literal), None) is not None


# --- price


def price(tokens: int, shared: int, *, write: float = 1.0) -> float:
    """Return the price of a request, in tokens at full price.

    Args:
        tokens: Tokens of the request.
        shared: Those of them with which the request before began, too.
        write: Price of every other token.

    Example:
        >>> price(1_000, 900)
        190.0
    """
    return CACHED * shared + write * (tokens - shared)


def sent_again(tokens: int, shared: int, new: int) -> int:
    """Return how many tokens a request pays in full although they are not new.

    Args:
        tokens: Tokens of the request.
        shared: Those of them with which the request before began, too.
        new: Tokens of the history since the request before.
    """
    return max(0, tokens - shared - new)


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message as it is sent to a provider.

    Attributes:
        frame: Everything but its content: role, name, calls.
        blocks: Its content, text by text.
        tokens: Its tokens.
        said: Its text, for the search of literals.
    """

    frame: str
    blocks: tuple[str, ...]
    tokens: int
    plain_text: str


class MessageTexts:
    """Texts and token counts of messages, each computed once.

    Args:
        counter: Counts tokens; the same one for all recordings.

    Attributes:
        holds: Returns whether a text contains a literal as whole words.
    """

    def __init__(self, counter: ReferenceCounter) -> None:
        self.counter = counter
        # The message is kept with its texts: otherwise its id could be reused.
        self._sent: dict[int, tuple[BaseMessage, SentMessage]] = {}
        self.holds = cache(holds)

    def sent(self, message: BaseMessage) -> SentMessage:
        """Return a message as it is sent to a provider."""
        known = self._sent.get(id(message))
        if known is None:
            answers = message.tool_call_id if isinstance(message, ToolMessage) else None
            frame = json.dumps([message.type, message.name, answers, calls_of(message)])
            content = [message.content] if isinstance(message.content, str) else message.content
            blocks = tuple(map(_sent_text, content))
            tokens = self.counter.message(message)
            known = message, SentMessage(frame, blocks, tokens, plain_text(message))
            self._sent[id(message)] = known
        return known[1]

    def tokens(self, messages: Iterable[BaseMessage]) -> int:
        """Return the tokens of messages."""
        return sum(self.sent(message).tokens for message in messages)

    def any_holds(self, texts: Iterable[str], literal: str) -> bool:
        """Return whether one of the texts contains a literal."""
        return any(self.holds(text, literal) for text in texts)

    def shared(
        self, before: Sequence[BaseMessage], after: Sequence[BaseMessage]
    ) -> tuple[int, int, bool]:
        """Return the common beginning of two requests.

        Returns:
            Its tokens, its tokens in whole blocks, and whether it is all of the former request.
        """
        total = 0
        for old, new in zip(map(self.sent, before), map(self.sent, after), strict=False):
            if (old.frame, old.blocks) != (new.frame, new.blocks):
                loose, whole = self._shared_inside(old, new)
                return total + loose, total + whole, False
            total += new.tokens
        return total, total, len(before) <= len(after)

    def _shared_inside(self, old: SentMessage, new: SentMessage) -> tuple[int, int]:
        whole = 0
        if old.frame != new.frame:
            return 0, 0
        for one, other in zip(old.blocks, new.blocks, strict=False):
            if one != other:
                # Characters are wanted here, not folders.
                common = os.path.commonprefix([one, other])  # noqa: RUF071
                return whole + self.counter.text(common), whole
            whole += self.counter.text(other)
        return whole, whole

    def newest(self, history: Sequence[BaseMessage], tokens: int) -> list[str]:
        """Return the texts of the newest messages; of the one at the border its last part.

        The border is found by that message's own characters per token.
        """
        found: list[str] = []
        for message in map(self.sent, reversed(history)):
            if message.tokens > tokens:
                text = message.plain_text
                start = len(text) - len(text) * max(tokens, 0) // message.tokens
                return [*found, text[start:]]
            tokens -= message.tokens
            found.append(message.plain_text)
        return found


def _sent_text(block: str | dict[Any, Any]) -> str:
    """Return the text of a content block; of another kind all of it."""
    if isinstance(block, str):
        return block
    return str(block["text"]) if block.get("type") == "text" else json.dumps(block)


# --- coverage


def needed_literals(
    texts: MessageTexts, history: Sequence[BaseMessage], action: BaseMessage
) -> list[str]:
    """Return the literals of an action that are in the history and not in the system text.

    Args:
        texts: Words of the messages.
        history: The messages before the action.
        action: What the model answered in the recording.
    """
    system = [texts.sent(m).plain_text for m in history if isinstance(m, SystemMessage)]
    others = [texts.sent(m).plain_text for m in history if not isinstance(m, SystemMessage)]
    return [
        literal
        for literal in literals_of_action(action)
        if texts.any_holds(reversed(others), literal) and not texts.any_holds(system, literal)
    ]


def far_literals(
    texts: MessageTexts, history: Sequence[BaseMessage], literals: Sequence[str], window: int
) -> list[str]:
    """Return the literals that are not in the newest part of the history.

    Args:
        texts: Words of the messages.
        history: The messages before the action.
        literals: Those that the action needs.
        window: Tokens of the window; its newest `NEAR_SHARE` is near.
    """
    near = texts.newest(history, int(NEAR_SHARE * window))
    return [literal for literal in literals if not texts.any_holds(near, literal)]


def held_literals(
    texts: MessageTexts, request: Sequence[BaseMessage], literals: Sequence[str]
) -> list[str]:
    """Return the literals that are in a request."""
    shown = [texts.sent(message).plain_text for message in request]
    return [literal for literal in literals if texts.any_holds(shown, literal)]


def are_whole(results: Sequence[ToolMessage], request: Sequence[BaseMessage]) -> bool:
    """Return whether all tool results are uncut in a request.

    Example:
        >>> result = ToolMessage("42", tool_call_id="1")
        >>> are_whole([result], [result]), are_whole([result], [])
        (True, False)
    """
    shown = [text_of(message) for message in request if isinstance(message, ToolMessage)]
    return all(any(text_of(result) in text for text in shown) for result in results)
