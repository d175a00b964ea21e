"""Checks of the arguments that an application passes: invalid ones raise an error at once.

An error names what was expected, what was passed, and the line to write. It never shows the value:
a text passed as a store may be a database URL with its password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, get_args

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue

from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.core.messages import text_of
from langchain_tokenmem.errors import ConfigurationError

T = TypeVar("T")

LONGEST_WAIT_S = 365 * 24 * 3_600
"""A year: `threading` refuses infinity."""

_PAIR = 2
_MESSAGES = (
    'messages, or what LangChain takes for one: [HumanMessage("hi")], [("human", "hi")] or '
    '[{"role": "user", "content": "hi"}]'
)


def checked(value: Any, kind: type[T], name: str, line: str) -> T:
    """Return the value if it is an instance of the expected class.

    Args:
        value: An argument.
        kind: The expected class.
        name: Name of the argument.
        line: How to write it.

    Raises:
        ConfigurationError: When it is an instance of another class.
    """
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise ConfigurationError(
        f"{name} is {described(value)}; pass {article} {kind.__name__}: {line}."
    )


def checked_choice(value: T, choices: Any, name: str) -> T:
    """Return the value if it is one of the values of a Literal.

    Args:
        value: An argument.
        choices: The Literal, of texts.
        name: Name of the argument.

    Raises:
        ConfigurationError: When it is not one of them.
    """
    known = get_args(choices)
    if isinstance(value, str) and value in known:
        return value
    *others, last = (f'"{one}"' for one in known)
    raise ConfigurationError(f"{name} is {value!r:.100}; it is {', '.join(others)} or {last}.")


def checked_seconds(name: str, value: float) -> float:
    """Return a number of seconds that a thread can wait.

    Raises:
        ConfigurationError: When it is not a number, negative, or longer than threads can wait.
    """
    if type(value) not in {int, float} or not 0 <= value <= LONGEST_WAIT_S:
        raise ConfigurationError(
            f"{name} is {value!r}; it is a time in seconds, 0 or more, and a year at most."
        )
    return value


_LONGEST_AGE = timedelta(days=365 * 1_000)
"""This can be subtracted from any date."""


def check_age(name: str, value: timedelta | None) -> None:
    """Check an age, or the time between two runs of something; None is allowed.

    Raises:
        ConfigurationError: When it is not a time, not above zero, or over a thousand years.
    """
    if value is not None and not (
        isinstance(value, timedelta) and timedelta(0) < value <= _LONGEST_AGE
    ):
        raise ConfigurationError(
            f"{name} is {value!r}; it is a timedelta above zero and up to "
            f"{_LONGEST_AGE.days:,} days, such as timedelta(days=30)."
        )


def checked_parts(value: T, parts: Iterable[str], name: str, line: str) -> T:
    """Return the value if it has the attributes of its protocol; arguments as in `checked`.

    Raises:
        ConfigurationError: When one of them is missing.
    """
    if not isinstance(value, type) and all(hasattr(value, part) for part in parts):
        return value
    raise ConfigurationError(f"{name} is {described(value)}, which cannot be used here: {line}.")


def checked_several(values: Any, kind: type[T], name: str, line: str) -> tuple[T, ...]:
    """Return several values, each an instance of the class; arguments as in `checked`.

    Raises:
        ConfigurationError: When it is a single value, or one of them is of another class.
    """
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        several = tuple(values)
        if all(isinstance(one, kind) for one in several):
            return several
        what = f"holds {described(next(x for x in several if not isinstance(x, kind)))}"
    else:
        what = f"is {described(values)}"
    raise ConfigurationError(f"{name} {what}; it is a list: {line}.")


def checked_overhead(value: int) -> int:
    """Return a number of `overhead_tokens`.

    Raises:
        ConfigurationError: When it is not a whole number, or less than 0.
    """
    if type(value) is not int or value < 0:
        raise ConfigurationError(
            f"overhead_tokens is {value!r:.100}; it is a number of tokens, 0 or more."
        )
    return value


def checked_output_limit(value: Any) -> str | Literal[True] | None:
    """Return the argument `limit_output`: a name, True, or None, which False means, too.

    Raises:
        ConfigurationError: When it is something else.
    """
    if value is None or value is False:
        return None
    if value is True or (isinstance(value, str) and value):
        return value
    raise ConfigurationError(
        f"limit_output is {value!r:.100}; it is True, or the name of the model's setting."
    )


def described(value: Any) -> str:
    """Return the type of a value in words, never the value."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def as_messages(given: Any) -> Sequence[BaseMessage]:
    """Return messages as they were given, or what LangChain makes of texts, pairs and dicts.

    A sequence of messages is returned unchanged. A single message becomes a list of one.

    Raises:
        ConfigurationError: When it cannot be converted to messages.
    """
    if isinstance(given, list | tuple) and all(
        issubclass(kind, BaseMessage) for kind in set(map(type, given))
    ):
        return given
    if isinstance(given, PromptValue):
        return given.to_messages()
    is_one = isinstance(given, str | dict | BaseMessage) or (
        isinstance(given, tuple) and len(given) == _PAIR and all(isinstance(x, str) for x in given)
    )
    if not is_one and (not isinstance(given, Iterable) or isinstance(given, bytes | type)):
        raise ConfigurationError(f"messages is {described(given)}; it is a list of {_MESSAGES}.")
    several = [given] if is_one else list(given)
    try:
        return convert_to_messages(several)
    except (ValueError, TypeError, RuntimeError, AttributeError, KeyError) as error:
        kinds = ", ".join(sorted({described(item) for item in several}))
        raise ConfigurationError(
            f"messages contains {kinds}, which cannot be converted to messages "
            f"({type(error).__name__}); it is a list of {_MESSAGES}."
        ) from error


def as_budget(given: Any, name: str = "budget") -> TokenBudget | None:
    """Return a budget; a number is a window in tokens, a dict holds the fields of one.

    Args:
        given: A `TokenBudget`, a number, a dict, or None.
        name: Name of the argument.

    Raises:
        ConfigurationError: When it is none of these, or its numbers cannot work.
    """
    if given is None or isinstance(given, TokenBudget):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return TokenBudget(given)
    line = (
        f'{name}=TokenBudget(context_window=8_000), TokenBudget.for_model("gpt-4o"), 8_000 or '
        '{"context_window": 8_000}'
    )
    if not isinstance(given, dict):
        raise ConfigurationError(f"{name} is {described(given)}; pass a budget: {line}.")
    try:
        return TokenBudget(**given)
    except TypeError as error:
        raise ConfigurationError(
            f"{name} contains fields that a TokenBudget does not have ({error}): {line}."
        ) from error


BeforeStore = Callable[[list[BaseMessage]], Sequence[BaseMessage]]
"""Changes messages before they are stored in a transcript, for example redacts them.

It returns the same number of messages with the same ids. To change a message, it copies it.
"""


def checked_before_store(before_store: BeforeStore | None) -> BeforeStore | None:
    """Return the function, or None.

    Raises:
        ConfigurationError: When it is something else.
    """
    if before_store is None or callable(before_store):
        return before_store
    raise ConfigurationError(
        f"before_store is {described(before_store)}; pass a function: "
        f"before_store=redact, which takes messages and returns them."
    )


def as_kept(before_store: BeforeStore | None, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages in the form in which they are stored.

    Raises:
        ConfigurationError: When the function returns other messages.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> [m.content for m in as_kept(None, [HumanMessage("hi")])]
        ['hi']
    """
    if before_store is None:
        return list(messages)
    given = before_store(list(messages))
    kept = list(given) if isinstance(given, Iterable) else []
    if [getattr(one, "id", kept) for one in kept] != [message.id for message in messages]:
        raise ConfigurationError(
            f"before_store was given {len(messages)} messages and returned {len(kept)}, or one "
            f"has another id. It returns each message, in order and under its id: change a copy, "
            f'message.model_copy(update={{"content": ...}}).'
        )
    return kept


def text_as_kept(before_store: BeforeStore | None, text: str) -> str:
    """Return the stored form of a text that is not a message, such as a note."""
    return text_of(as_kept(before_store, [HumanMessage(text)])[0]) if before_store else text
