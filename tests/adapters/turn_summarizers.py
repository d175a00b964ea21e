"""Four summarizers for the contract of a turn: good, slow, raising and endless."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage

# The only import of the contract that is no public name.
from langchain_tokenmem.summarize.base import Summary

SLOW_S = 0.1
FOR_EVER_S = 60.0


class Good:
    """Writes how many messages it read, and after what."""

    is_quick = False
    prompt_version = "contract-1"

    def __init__(self) -> None:
        self.entered: set[int] = set()
        self.released = threading.Event()

    def wants(self, messages: Sequence[BaseMessage]) -> bool:
        return bool(messages)

    def summarize(self, request: Any) -> Summary:
        self.entered.add(threading.get_ident())
        self.pause()
        return self.written(request)

    async def asummarize(self, request: Any) -> Summary:
        self.entered.add(threading.get_ident())
        await asyncio.to_thread(self.pause)
        return self.written(request)

    def pause(self) -> None:
        """Take no time."""

    def written(self, request: Any) -> Summary:
        ids = f"{request.messages[0].id} to {request.messages[-1].id}"
        text = f"The user asked about {ids}; before that: {request.prior or 'nothing'}."
        return Summary(text, type(self).__name__, self.prompt_version)


class Slow(Good):
    """Takes longer than a turn, and less than a call may wait."""

    def pause(self) -> None:
        self.released.wait(SLOW_S)


class Raising(Good):
    """Fails as an application's own summarizer does."""

    def written(self, request: Any) -> Summary:
        raise ConnectionError("provider down")


class Endless(Good):
    """Does not return until it is released."""

    def pause(self) -> None:
        assert self.released.wait(FOR_EVER_S)


SUMMARIZERS = {"good": Good, "slow": Slow, "raising": Raising, "endless": Endless}
