"""What a row says of its length bounds what is made of it."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langchain_tokenmem.errors import CorruptStoreError
from langchain_tokenmem.storage.checkpoints import codec as module
from langchain_tokenmem.storage.checkpoints.codec import Codec

MANY = 100_000_000


@pytest.fixture
def codec() -> Codec:
    return Codec(JsonPlusSerializer(allowed_msgpack_modules=None), None)


@pytest.mark.parametrize("size", [0, 95, 96, 5_000, 200_000])
def test_a_value_is_read_back_whatever_its_length(codec: Codec, size: int) -> None:
    value = "abc" * size
    packed = codec.pack(value)
    assert codec.unpack(packed) == value
    assert packed[:1] == (b"Z" if len(value) >= 96 else b"-")


def test_a_row_of_an_older_version_has_no_length_and_is_read(codec: Codec) -> None:
    kind, data = codec.serde.dumps_typed("abc" * 1_000)
    assert codec.unpack(b"z" + kind.encode() + b"\0" + zlib.compress(data)) == "abc" * 1_000


@pytest.fixture(scope="module")
def bomb() -> bytes:
    made = zlib.compressobj()
    return (
        b"".join(made.compress(bytes(1_000_000)) for _ in range(MANY // 1_000_000)) + made.flush()
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["short", "long", "none"])
def test_a_decompression_bomb_is_refused_before_it_takes_the_memory(
    codec: Codec, bomb: bytes, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_UNKNOWN", 1_000_000)
    length = {"short": 1_000, "long": 1_000_000}.get(form)
    head = b"z" if length is None else b"Z"
    told = b"" if length is None else length.to_bytes(8, "big")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStoreError, match="not as long as its row says"):
            codec.unpack(head + b"bytes\0" + told + bomb)
        assert tracemalloc.get_traced_memory()[1] < MANY / 10
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [2_999, 3_001, 0, 2**63])
def test_another_length_than_was_stored_is_damage(codec: Codec, length: int) -> None:
    packed = codec.pack(b"abc" * 1_000)
    at = packed.index(b"\0") + 1
    assert packed[at : at + 8] == (3_000).to_bytes(8, "big")
    with pytest.raises(CorruptStoreError):
        codec.unpack(packed[:at] + length.to_bytes(8, "big") + packed[at + 8 :])


def test_a_compressed_value_that_was_cut_off_is_damage(codec: Codec) -> None:
    packed = codec.pack("abc" * 1_000)
    for end in (-1, -20, 9, 12):
        with pytest.raises(CorruptStoreError):
            codec.unpack(packed[:end])
