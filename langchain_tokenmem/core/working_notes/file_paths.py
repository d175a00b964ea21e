"""Paths of files, in one form: relative to the project's root where they are inside of it."""

from __future__ import annotations

import re
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from posixpath import normpath

_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_LONGEST = 400
"""Characters from which an argument is no path, but a text."""


def plain_path(path: str, root: str | None) -> str | None:
    """Return a path in a form in which two names of one file are equal; None where it is none.

    `./b.go` is `b.go`. With a root, what lies inside of it is relative to it, and what a relative
    path reaches outside of it is absolute. It stands on one line.

    Args:
        path: A path as a tool was given it.
        root: Absolute path of the project; None where it is not known.

    Example:
        >>> plain_path("/app/src/../b.go", "/app"), plain_path("./b.go", None)
        ('b.go', 'b.go')
    """
    path = _CONTROL.sub(" ", path.removeprefix("file://")).strip()
    if not path or len(path) > _LONGEST:
        return None
    is_windows = bool(_DRIVE.match(root or path))
    kind: type[PurePath] = PureWindowsPath if is_windows else PurePosixPath
    whole = _without_dots(kind(path) if root is None else kind(root, path), kind)
    base = _without_dots(kind(root), kind) if root is not None else None
    if base is not None and whole.is_relative_to(base):
        whole = whole.relative_to(base)
    shown = whole.as_posix()
    return None if shown == "." else shown


def _without_dots(path: PurePath, kind: type[PurePath]) -> PurePath:
    return kind(normpath(path.as_posix()))
