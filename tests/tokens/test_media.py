"""Images, audio, video and files count by rules, never by their characters."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_tokenmem.tokens import media
from langchain_tokenmem.tokens.counters import counter_for

# Headers of pictures and sounds, made by hand: they can be measured, not decoded.


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(
        ">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 6, 0, 0, 0
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0)


def bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<IiiHH", 40, width, -height, 1, 24)


def webp_lossy(width: int, height: int) -> bytes:
    return b"RIFF\0\0\0\0WEBPVP8 " + bytes(7) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height)


def webp_lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14
    return b"RIFF\0\0\0\0WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", bits)


def webp_extended(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + sides


def jpeg(width: int, height: int, *, exif: int = 20_000) -> bytes:
    segment = b"\xff\xe1" + struct.pack(">H", exif + 2) + bytes(exif)
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + segment + b"\xff" + frame


def wav(seconds: int, *, rate: int = 32_000) -> bytes:
    header = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, rate, 2, 16)
    return header + bytes(rate * seconds)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, mime_type: str = "image/png") -> str:
    return f"data:{mime_type};base64,{encoded(data)}"


MEGABYTE = bytes(1_000_000)
PICTURE = png(1024, 1024)
BIG_PICTURE = PICTURE + MEGABYTE

IMAGE_SHAPES = {
    "openai chat": lambda d: {"type": "image_url", "image_url": {"url": data_url(d)}},
    "openai chat, bare url": lambda d: {"type": "image_url", "image_url": data_url(d)},
    "openai responses": lambda d: {"type": "input_image", "image_url": data_url(d)},
    "anthropic": lambda d: {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": encoded(d)},
    },
    "v1": lambda d: {"type": "image", "base64": encoded(d), "mime_type": "image/png"},
    "v0": lambda d: {"type": "image", "source_type": "base64", "data": encoded(d)},
    "gemini media": lambda d: {"type": "media", "mime_type": "image/png", "data": d},
    "gemini part": lambda d: {"inline_data": {"mime_type": "image/png", "data": encoded(d)}},
    "bedrock": lambda d: {"image": {"format": "png", "source": {"bytes": d}}},
    "file of a picture": lambda d: {"type": "file", "mime_type": "image/png", "base64": encoded(d)},
    "anthropic tool result": lambda d: {
        "type": "tool_result",
        "tool_use_id": "",
        "content": [IMAGE_SHAPES["anthropic"](d)],
    },
    "non standard": lambda d: {"type": "non_standard", "value": IMAGE_SHAPES["anthropic"](d)},
}


def part(block: dict, model: str = "gpt-4o") -> int:
    """Tokens of a block, without its message's frame."""
    counter = counter_for(model)
    return counter.message(HumanMessage([block])) - counter.message(HumanMessage(""))


@pytest.mark.parametrize("shape", IMAGE_SHAPES)
def test_a_megabyte_image_counts_by_its_size_in_every_content_shape(shape):
    assert part(IMAGE_SHAPES[shape](BIG_PICTURE)) in (765, 766)  # a leaf of an unknown block: +1


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1024, 1024), 765),  # OpenAI's own examples
        ((2048, 4096), 1105),
        ((512, 512), 255),
        ((4096, 2048), 1105),
        ((1, 1), 255),
        ((10_000, 10), 85 + 4 * 170),
    ],
)
def test_images_count_by_openais_tiles(size, expected):
    assert media.image_tokens(size, "openai") == expected
    assert part(IMAGE_SHAPES["openai chat"](png(*size))) == expected


def test_images_count_by_the_formulas_of_other_providers():
    assert media.image_tokens((1000, 1000), "anthropic") == 1334  # Anthropic's documentation
    assert media.image_tokens((200, 200), "anthropic") == 54
    assert media.image_tokens((3000, 3000), "anthropic") == media.image_tokens(
        (1568, 1568), "anthropic"
    )
    assert media.image_tokens((384, 384), "gemini") == 258
    assert media.image_tokens((960, 540), "gemini") == 258 * 6  # Google's example
    assert media.image_tokens((1000, 1000), "largest") == 1334
    assert media.image_tokens((512, 512), "largest") == 350
    assert part(IMAGE_SHAPES["anthropic"](PICTURE), "claude-sonnet-4-5") == 1399
    low = {"url": data_url(PICTURE), "detail": "low"}
    assert part({"type": "image_url", "image_url": low}) == 85


@pytest.mark.parametrize(
    "picture",
    [
        *(png, gif, bmp, jpeg),
        *(webp_lossy, webp_lossless, webp_extended),
    ],
)
def test_image_sizes_are_read_from_headers(picture):
    data = picture(640, 480)
    assert media.image_size(data) == media.image_size(data_url(data)) == (640, 480)
    assert media.image_size(encoded(data)[: len(encoded(data)) // 4 * 4]) == (640, 480)


@given(
    st.binary(max_size=300),
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF8", b"RIFF", b"BM"]),
)
def test_reading_image_and_audio_headers_never_raises_on_any_bytes(tail, magic):
    size = media.image_size(magic + tail)
    assert size is None or (size[0] > 0 and size[1] > 0)
    assert media.audio_tokens(magic + tail) >= 0
    assert media.image_size(png(2**31, 1)) is None


def test_an_image_by_url_or_id_counts_a_default_and_is_not_fetched():
    # Sockets are blocked in all tests: a fetch would raise inside and be logged as a guess.
    assert part({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}) == 765
    assert part({"type": "image", "file_id": "file-1"}) == 765
    assert part({"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}) == 765


AUDIO_SHAPES = {
    "openai": lambda d: {
        "type": "input_audio",
        "input_audio": {"data": encoded(d), "format": "wav"},
    },
    "v1": lambda d: {"type": "audio", "base64": encoded(d), "mime_type": "audio/wav"},
    "gemini": lambda d: {"type": "media", "mime_type": "audio/wav", "data": encoded(d)},
}


@pytest.mark.parametrize("shape", AUDIO_SHAPES)
def test_audio_counts_by_its_seconds(shape):
    assert part(AUDIO_SHAPES[shape](wav(30))) == pytest.approx(30 * 32, abs=2)


def test_audio_and_video_without_a_header_or_by_url_count_a_documented_default():
    for kind, mime_type, by_size, by_url in (
        ("audio", "audio/mpeg", 2_000, 60 * 32),
        ("video", "video/mp4", 8 * 295, 60 * 295),
    ):
        data = {"type": kind, "base64": encoded(MEGABYTE), "mime_type": mime_type}
        assert part(data) == pytest.approx(by_size, abs=2)
        assert part({"type": kind, "url": "https://example.com/a"}) == by_url


PDF = "application/pdf"
FILE_SHAPES = {
    "openai chat": lambda d: {"type": "file", "file": {"file_data": data_url(d, PDF)}},
    "openai responses": lambda d: {"type": "input_file", "file_data": data_url(d, PDF)},
    "anthropic": lambda d: {
        "type": "document",
        "source": {"type": "base64", "media_type": PDF, "data": encoded(d)},
    },
    "v1": lambda d: {"type": "file", "base64": encoded(d), "mime_type": PDF},
    "gemini": lambda d: {"type": "media", "mime_type": PDF, "data": d},
    "bedrock": lambda d: {"document": {"format": "pdf", "source": {"bytes": d}}},
}


@pytest.mark.parametrize("shape", FILE_SHAPES)
def test_documents_count_by_pages(shape):
    assert part(FILE_SHAPES[shape](MEGABYTE)) == 10 * 3_000


def test_documents_of_plain_text_count_as_text():
    prose = "The quick brown fox jumps over the lazy dog. " * 20
    text = counter_for("gpt-4o").text(prose)
    source = {"type": "text", "media_type": "text/plain", "data": prose}
    assert part({"type": "document", "source": source}) == text
    content = {"type": "content", "content": [{"type": "text", "text": prose}]}
    assert part({"type": "document", "source": content}) == text
    assert part({"type": "text-plain", "text": prose, "mime_type": "text/plain"}) == text
    encoded_prose = {"type": "text-plain", "base64": encoded(prose.encode())}
    assert text <= part(encoded_prose) <= 2 * text
    assert part({"type": "file", "file_id": "file-1"}) == 3 * 3_000


HEAD = "0123456789abcdef" * 20
PROSE = "The quick brown fox jumps over the lazy dog. " * 200
TEXT_PLACES = {
    "unknown block": lambda s: {"type": "hologram", "payload": s},
    "key of an unknown block": lambda s: {"type": "hologram", s: 1},
    "bash": lambda s: {
        "type": "bash_code_execution_tool_result",
        "content": {"type": "bash_code_execution_result", "stdout": s, "return_code": 0},
    },
    "mcp_call": lambda s: {"type": "mcp_call", "id": "mcp_1", "name": "read", "output": s},
    "code_interpreter_call": lambda s: {
        "type": "code_interpreter_call",
        "outputs": [{"type": "logs", "logs": s}],
    },
    "server_tool_result": lambda s: {"type": "server_tool_result", "output": {"stdout": s}},
    "tool_result": lambda s: {"type": "tool_result", "tool_use_id": "t", "content": s},
    "data URL": lambda s: {"type": "hologram", "payload": "data:text/plain;base64," + s},
    "picture inside an unknown block": lambda s: {
        "type": "hologram",
        "x": {"type": "image", "data": s},
    },
    "picture without a picture": lambda s: {"type": "image", "caption": s},
    "listing with MIME types": lambda s: {
        "type": "tool_result",
        "content": [{"mime_type": "image/png", "id": "7", "description": s}],
    },
}
HEADS = [HEAD, encoded(bytes(range(256)) * 2), "/usr/lib/site-packages/" * 12, "A" * 300]


@pytest.mark.parametrize("place", TEXT_PLACES)
def test_text_that_begins_like_data_counts_as_text(place):
    for head in HEADS:
        text = head + PROSE
        assert part(TEXT_PLACES[place](text)) >= 0.95 * counter_for("gpt-4o").text(text)


def test_only_media_in_its_place_counts_as_media():
    picture = {"type": "image", "base64": encoded(MEGABYTE), "mime_type": "image/png"}
    assert part(picture) < 2_000
    assert part({"type": "tool_result", "tool_use_id": "t", "content": [picture]}) < 2_000
    shot = {"type": "computer_screenshot", "image_url": data_url(MEGABYTE)}
    assert part({"type": "computer_call_output", "call_id": "c", "output": shot}) < 2_000
    drawn = {"type": "image_generation_call", "id": "ig_1", "result": encoded(MEGABYTE)}
    assert part(drawn) < 2_000
    assert part({"type": "hologram", "blob": b"ab" * 5_000}) > 1_000
