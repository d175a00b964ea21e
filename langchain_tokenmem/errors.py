"""Exception classes of this package, as one tree.

```
TokenMemoryError (LangChainException)
├── BudgetExceededError (ValueError)   the parts that cannot shrink are larger than the limit
├── ConfigurationError (ValueError)    a setting that cannot work, reported when it is created
├── HistoryImportError (ValueError)    a message of a source cannot be imported
├── ScopeError (ValueError)            a session or user id that is missing or unusable
├── SummaryError                       a summary could not be made or was refused
├── RecallError                        the recall index could not answer
└── StoreError                         the store could not read or write
    ├── CorruptStoreError              stored rows are damaged; nothing of them was returned
    ├── RedactionError                 words that should be removed are still in the store
    └── ThreadConflictError            another run has continued from the same checkpoint
```

Every message says what happened, in which session, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.exceptions import LangChainException


class TokenMemoryError(LangChainException):
    """Base of every error that this package raises."""


class BudgetExceededError(TokenMemoryError, ValueError):
    """The parts of a request that cannot be shortened exceed the limit.

    Args:
        parts: Tokens of each part of the request, by name.
        limit: The limit, in tokens.
        advice: What the caller can do.
    """

    def __init__(self, parts: Mapping[str, int], limit: int, advice: str = "") -> None:
        self.parts = dict(parts)
        self.limit = limit
        named = ", ".join(f"{name} {tokens:,}" for name, tokens in self.parts.items() if tokens)
        advice = advice or (
            "Shorten the system text, pass fewer tools, or use a model with a larger window."
        )
        super().__init__(
            f"The fixed parts of the request need {sum(self.parts.values()):,} tokens ({named}), "
            f"the limit is {limit:,}. {advice}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.parts, self.limit))


class ConfigurationError(TokenMemoryError, ValueError):
    """An invalid setting or argument."""


class HistoryImportError(TokenMemoryError, ValueError):
    """A message of a source cannot be imported; the messages before it are stored.

    Args:
        what: What is wrong.
        where: Its place in the source: file and line, table and row, or number of the message.
        done: Messages of the source that are stored.
    """

    def __init__(self, what: str, where: str = "", done: int | None = None) -> None:
        self.what, self.where, self.done = what, where, done
        text = f"{where}: {what}" if where else what
        if done is not None:
            text += (
                f" The {done:,} messages before it are imported; fix it and import again: these "
                f"are kept, and the rest is added."
                if done
                else " Nothing was imported."
            )
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.what, self.where, self.done))


class ScopeError(TokenMemoryError, ValueError):
    """A session or user id that is missing, empty or unusable."""


class SummaryError(TokenMemoryError):
    """A summary could not be written, or was refused."""


class RecallError(TokenMemoryError):
    """The recall index could not answer."""


class StoreError(TokenMemoryError):
    """The store could not read or write."""


class CorruptStoreError(StoreError):
    """Stored rows are damaged; they were not returned as data."""


class RedactionError(StoreError):
    """Words that should be removed are still in the store, or were stored again.

    Args:
        counts: Rows that still contain them, by place.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        places = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        super().__init__(
            f"After the redaction the words are still in: {places}. Another writer may have "
            f"stored them meanwhile, such as a run that had read them: let it end, and redact "
            f"again."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.counts,))


class ThreadConflictError(StoreError):
    """Another run has continued from the same checkpoint, or the thread was deleted meanwhile.

    Nothing was stored. The turn can be repeated from the thread's new head.
    """
