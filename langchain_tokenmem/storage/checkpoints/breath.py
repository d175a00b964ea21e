"""Long work in short stretches, so that an event loop in another thread is not held up."""

from __future__ import annotations

import time

AT_A_STRETCH = 200
"""Messages worked on before other threads get their turn: less than a millisecond."""


def breathe() -> None:
    """Let other threads run: an event loop would otherwise wait for Python's switch interval."""
    time.sleep(0)
