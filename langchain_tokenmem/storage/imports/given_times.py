"""Times of messages, as other libraries write them into a message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_tokenmem.core.messages import marks_of

_NAMES = ("created_at", "timestamp", "created")


def given_time(message: BaseMessage) -> str | None:
    """Return the time that a message brings, as ISO 8601; None where it brings none.

    That is `created_at` among the memory's own marks; else `created_at`, `timestamp` or `created`
    in its `additional_kwargs` or `response_metadata`, as ISO 8601 or in seconds since 1970: Ollama
    and OpenAI say so in their replies.
    """
    own = marks_of(message).get("created_at")
    if own is not None:
        return str(own)
    for fields in (message.additional_kwargs, message.response_metadata):
        for name in _NAMES if isinstance(fields, dict) else ():
            moment = moment_of(fields.get(name))
            if moment is not None:
                return moment.isoformat()
    return None


def moment_of(value: Any) -> datetime | None:
    """Return a time in UTC; None for what is none.

    Args:
        value: A datetime, ISO 8601 or seconds since 1970; without a zone it is UTC.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(found, datetime):
            return None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
