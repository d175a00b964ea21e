"""`ToolKinds`: which tools write files, run commands or only read, and by which argument."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ToolKinds:
    """Tools whose effects are kept, by name.

    Attributes:
        writes: Argument that names the file, by the name of a tool that writes.
        commands: Argument that holds the command, by the name of a tool that runs one.
        reads: Names of tools that only read.
    """

    writes: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    reads: Collection[str] = ()
