"""Things that are closed at the end of a `with`."""

from __future__ import annotations

from typing import Any, Self


class Closeable:
    """A context manager, sync and async, for what has `close` and `aclose`."""

    close: Any
    aclose: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()
