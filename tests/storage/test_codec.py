"""Values as bytes: what a row says of itself is not believed."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.codec import Codec
from langchain_tokenmem.storage.serializer import StateSerializer

MANY = 50_000_000


@pytest.mark.slow
def test_a_decompression_bomb_is_refused_before_it_takes_the_memory() -> None:
    made = zlib.compressobj()
    parts = [made.compress(bytes(1_000_000)) for _ in range(MANY // 1_000_000)]
    bomb = b"".join(parts) + made.flush()
    codec = Codec(StateSerializer(()))
    packed = codec.pack(b"abc" * 1_000)
    at = packed.index(b"\0") + 1
    assert packed[at : at + 8] == (3_000).to_bytes(8, "big")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStoreError, match="not as long as its row says"):
            codec.unpack(packed[: at + 8] + bomb)
        assert tracemalloc.get_traced_memory()[1] < MANY / 10
    finally:
        tracemalloc.stop()
