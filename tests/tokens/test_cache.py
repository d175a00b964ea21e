"""The cache of counts: bounded, and no texts are kept alive by it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tokenmem.tokens.counters import CountCache, message_key

WORDS = "the parcel from Lund is late " * 40
CALL = {"name": "look_up", "args": {"what": WORDS}, "id": "c1"}


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage(WORDS),
        HumanMessage([{"type": "text", "text": WORDS}]),
        AIMessage("", tool_calls=[CALL]),
    ],
)
def test_a_key_is_small_and_tells_messages_apart(message: BaseMessage):
    key, other = message_key(message), message_key(message.model_copy(update={"name": "ann"}))
    assert sum(map(sys.getsizeof, _parts(key))) < 400
    assert key == message_key(message.model_copy())
    assert key != other


def _parts(key: Any) -> Iterable[Any]:
    yield key
    if isinstance(key, tuple):
        for part in key:
            yield from _parts(part)


def test_a_full_cache_forgets_what_nobody_asks_for():
    cache = CountCache(10)
    for number in range(100):
        cache.put(number, number)
        assert cache.get(0) == 0
    assert len(cache) <= 20
    assert cache.get(50) is None
