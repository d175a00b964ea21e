"""The address of a database: a URL, the path of a SQLite file, or an application's engine."""

from __future__ import annotations

import os
import re
from typing import Any

from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from langchain_tokenmem.core.argument_checks import described
from langchain_tokenmem.errors import ConfigurationError

_SCHEME = re.compile(r"([a-z][a-z0-9+_.-]*):(?!\\)", re.IGNORECASE)
"""Start of a URL. `C:\\file.db` and `file.db` are paths."""

_FILE_OPTIONS = frozenset({"mode", "cache", "uri", "immutable", "nolock", "vfs"})
"""Options that SQLite itself reads, from the URI of a file."""

_READ_ONLY = "sqlite:///file:memory.db?mode=ro&uri=true"

_OPTIONS = re.compile(rf"\?(?:{'|'.join(_FILE_OPTIONS)}|timeout)=[^/\\]*$")
"""SQLite's options at the end of a path, which only a URL has."""

_AT_IN_PASSWORD = re.compile(r"[^:]+://[^?]*@[^?]*@|[^?]*\?[^=]*@")
"""A second @, or one in what looks like options: the password's end is read as a host or a name."""

_ESCAPES = " Signs such as @ : / in a user or password are written as %40 %3A %2F."
_LINE = (
    'TranscriptStore("memory.db"), TranscriptStore("sqlite:///memory.db"), or '
    'TranscriptStore("postgresql+psycopg://user:password@host/database") with pip install '
    "'langchain-tokenmem[postgres]'"
)


def parsed(url: Any) -> URL:
    """Return the URL of a supported database; a path names a SQLite file.

    Errors show only the scheme of the URL: an unescaped password may be anywhere in it.

    Raises:
        ConfigurationError: When it is not the URL of a supported database.
    """
    if isinstance(url, os.PathLike):
        return of_file(os.fsdecode(url))
    if not isinstance(url, str | URL):
        raise ConfigurationError(
            f"url is {described(url)}; a database is named by its URL or path: {_LINE}."
        )
    scheme = _SCHEME.match(url) if isinstance(url, str) else None
    if isinstance(url, str) and scheme is None and url.strip() and "://" not in url:
        return _of_path(url)
    named = f"A URL that begins with {scheme[1]!r}" if scheme else "This text"
    problem = f"{named} is not a database URL that works here."
    try:
        address = _with_driver(make_url(url))
        is_async = address.get_dialect().is_async
    except NoSuchModuleError:
        problem += " No such kind of database is known."
    except ImportError as error:
        problem += f" Its driver is not installed ({error})."
    except (ArgumentError, ValueError):  # a port that is not a number raises ValueError
        problem += _ESCAPES
    else:
        if not (isinstance(url, str) and address.host and _AT_IN_PASSWORD.match(url)):
            if is_async:
                raise ConfigurationError(about_async(address.drivername))
            return _supported(address)
        problem += _ESCAPES
    raise ConfigurationError(f"{problem} Use {_LINE}.")


SYNC_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
"""Driver of each kind of database if a URL names none, or an async one."""


def _with_driver(address: URL) -> URL:
    """Return a URL with our PostgreSQL driver if it names none, as those from hosting services.

    `postgres://` is what libpq and hosting services write; SQLAlchemy does not know it.
    """
    if address.drivername in {"postgres", "postgresql"}:
        return address.set(drivername=SYNC_DRIVERS["postgresql"])
    return address


def about_async(driver: str) -> str:
    """Return the advice for an async driver."""
    kind = driver.partition("+")[0]
    instead = f"; write {SYNC_DRIVERS[kind]}:// instead" if kind in SYNC_DRIVERS else ""
    return (
        f"{driver} is an async driver; the store's own threads do the waiting{instead}. Every "
        f"method of the store has an async twin."
    )


def checked_engine(engine: Any) -> Engine:
    """Return an application's engine.

    Raises:
        ConfigurationError: When it cannot be used.
    """
    driver = getattr(getattr(engine, "url", None), "drivername", "")
    if getattr(getattr(engine, "dialect", None), "is_async", False):
        raise ConfigurationError(about_async(driver))
    if not isinstance(engine, Engine) or engine.dialect.name != "postgresql":
        what = f"of {engine.dialect.name}" if isinstance(engine, Engine) else type(engine).__name__
        raise ConfigurationError(
            f"engine= is {what}; it is an SQLAlchemy engine of PostgreSQL. A SQLite file is opened "
            f'by its URL: TranscriptStore("sqlite:///memory.db").'
        )
    return engine


def _supported(address: URL) -> URL:
    if address.get_backend_name() not in SYNC_DRIVERS:
        raise ConfigurationError(
            f"{address.get_backend_name()} is not supported; use SQLite or PostgreSQL."
        )
    if address.host and address.get_backend_name() == "sqlite":
        raise ConfigurationError(
            f"A SQLite file has no host {address.host!r}: write three slashes, "
            f"sqlite:///{address.host}, or the path alone."
        )
    options = _FILE_OPTIONS & address.query.keys()
    is_file_uri = "uri" in options and (address.database or "").startswith("file:")
    if options and address.get_backend_name() == "sqlite" and not is_file_uri:
        # SQLite would ignore them, or take them as a part of the file's name.
        raise ConfigurationError(
            f"SQLite reads {', '.join(sorted(options))} only with both file: and uri=true: "
            f"{_READ_ONLY}."
        )
    return address


def _of_path(path: str) -> URL:
    if _OPTIONS.search(path):
        raise ConfigurationError(
            f"This path ends in options, which only a URL has: {_READ_ONLY}. If they are part of "
            f"the file's name, give a pathlib.Path."
        )
    return of_file(path)


def of_file(path: str) -> URL:
    """Return the URL of a SQLite file; no character of the path has a special meaning."""
    return URL.create("sqlite", database=path)


def shown_url(url: str) -> str:
    """Return a URL that is safe to print, without its password and the values of its options.

    Example:
        >>> shown_url("postgresql+psycopg://ann:secret@db/chat?sslpassword=x")
        'postgresql+psycopg://ann:***@db/chat?sslpassword=***'
    """
    if "://" not in url:
        return url
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        return "***"
    hidden = address.set(query=dict.fromkeys(address.query, "***"))
    return hidden.render_as_string(hide_password=True).replace("%2A", "*")
