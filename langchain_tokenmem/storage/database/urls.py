"""URLs of databases: parsed, checked, and made from the path of a file."""

from __future__ import annotations

import re

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from langchain_tokenmem.errors import ConfigurationError


def parsed(url: str) -> URL:
    """Return the address of a database that is supported here.

    Raises:
        ConfigurationError: When it is none.
    """
    try:
        address = make_url(url)
        address.get_dialect()
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise ConfigurationError(
            f"{_without_password(url)!r} is no database URL that works here ({error}). Use "
            f"sqlite:///file.db, or "
            f"postgresql+psycopg://... with pip install 'langchain-tokenmem[postgres]'."
        ) from error
    if address.get_backend_name() not in {"sqlite", "postgresql"}:
        raise ConfigurationError(
            f"{address.get_backend_name()} is not supported; use SQLite or PostgreSQL."
        )
    return address


def of_file(path: str) -> URL:
    """Return the address of a SQLite file; no sign of its path means anything else in it."""
    return URL.create("sqlite", database=path)


def _without_password(url: object) -> str:
    return re.sub(r"(?<=:)[^:@/]+(?=@)", "***", str(url))
