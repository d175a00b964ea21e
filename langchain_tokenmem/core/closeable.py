"""Base class of context managers that call `close` or `aclose` on exit."""

from __future__ import annotations

from typing import Any, Self


class Closeable:
    """Context manager, sync and async, of an object with `close` and `aclose`."""

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
