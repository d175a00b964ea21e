"""Recognises errors of a database that mean a damaged file."""

from __future__ import annotations

_DAMAGE_CODES = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"})
_DAMAGE_WORDS = ("malformed", "not a database", "could not decode", "no such table", "no such col")


def is_damage(error: BaseException) -> bool:
    """Return whether a database says that its file is damaged."""
    code = getattr(error, "sqlite_errorname", "") or ""
    if any(code.startswith(begin) for begin in _DAMAGE_CODES):
        return True
    words = str(error).lower()
    return isinstance(error, UnicodeDecodeError) or any(word in words for word in _DAMAGE_WORDS)
