"""Prints pip constraints that pin what the package needs to the lowest version that it declares.

Usage:
    python .ci/lowest.py > lowest.txt
    pip install --constraint lowest.txt --editable '.[tests]'

Tools of development are not pinned: users do not install them.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?>=(?P<version>[\w.]+)")
USERS_EXTRAS = ("chroma", "community", "postgres", "cli")


def pinned(requirements: Iterable[str]) -> list[str]:
    """Return `name==lowest version` for each requirement, sorted.

    Raises:
        SystemExit: When a requirement has no lower bound that could be tested.
    """
    pins = set()
    for requirement in requirements:
        found = REQUIREMENT.match(requirement)
        if found is None:
            raise SystemExit(f"{requirement!r} in pyproject.toml needs a lower bound, as in 'x>=1'")
        pins.add(f"{found['name']}=={found['version']}")
    return sorted(pins)


def main() -> None:
    """Print the constraints of the project that this file stands in."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(one for name in USERS_EXTRAS for one in extras[name])]
    sys.stdout.write("\n".join(pinned(needed)) + "\n")


if __name__ == "__main__":
    main()
