"""`ModeProfile`: what a session is watched for, and how much of it is kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModeProfile:
    """A mode of working notes.

    Attributes:
        name: Name of the mode.
    """

    name: str
