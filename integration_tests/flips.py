"""Copies of a file with one bit flipped."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path


def flipped(
    path: Path, flips: int, within: re.Pattern[bytes] | None = None
) -> Iterator[tuple[str, Path]]:
    """Yield what was flipped, and the copy, which goes again; using it must not take for ever.

    Args:
        path: The file.
        flips: How many.
        within: Finds the bytes of which bits are flipped; None for all.
    """
    data = path.read_bytes()
    chosen = random.Random(2_026)
    places = [n for found in within.finditer(data) for n in range(*found.span())] if within else []
    assert places or within is None, "nothing to flip"
    for number in range(flips):
        # Every fourth flip goes to the first two pages: header, schema, and the roots of trees.
        place = chosen.choice(places or range(8_192 if number % 4 == 0 else len(data)))
        bit = 1 << chosen.randrange(8)
        changed = bytearray(data)
        changed[place] ^= bit
        copy = path.with_name(f"copy{number}.db")
        copy.write_bytes(changed)
        started = time.monotonic()
        yield f"byte {place} ^ {bit}", copy
        assert time.monotonic() - started < 20, "it hangs"
        for left in path.parent.glob(f"{copy.name}*"):
            left.unlink()
