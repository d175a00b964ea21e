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


def png(width, height):
    sides = struct.pack(">I4sIIBBBBB", 13, b"IHDR", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + sides


def webp(kind, sides):
    return b"RIFF\0\0\0\0WEBPVP8" + kind + sides


PICTURES = {
    "png": png(640, 480),
    "gif": b"GIF89a" + struct.pack("<HHBBB", 640, 480, 0, 0, 0),
    "bmp": b"BM" + bytes(12) + struct.pack("<IiiHH", 40, 640, -480, 1, 24),
    "webp, lossy": webp(b" ", bytes(7) + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480)),
    "webp, lossless": webp(b"L", bytes(4) + b"\x2f" + struct.pack("<I", 639 | 479 << 14)),
    "webp": webp(b"X", bytes(8) + b"".join(n.to_bytes(3, "little") for n in (639, 479))),
    "jpeg behind its camera's notes": (
        (b"\xff\xd8\xff\xe1" + struct.pack(">H", 20_002) + bytes(20_000))
        + (b"\xff\xff\xc2" + struct.pack(">HBHHB", 17, 8, 480, 640, 3) + bytes(9))
    ),
}
WAV = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16)
PICTURE, MEGABYTE = png(1024, 1024), bytes(1_000_000)
PNG, PDF, SOUND = "image/png", "application/pdf", "audio/wav"


def encoded(data):
    return base64.b64encode(data).decode()


def data_url(data, mime_type=PNG):
    return f"data:{mime_type};base64,{encoded(data)}"


def source(data, mime_type):
    """Return the data as Anthropic takes them."""
    return {"source": {"type": "base64", "media_type": mime_type, "data": encoded(data)}}


def part(block, model="gpt-4o"):
    """Tokens of a block, without its message's frame."""
    counter = counter_for(model)
    return counter.message(HumanMessage([block])) - counter.message(HumanMessage(""))


def drawn(data):
    """Return a picture as a block, in the form of OpenAI's chat API."""
    return {"type": "image_url", "image_url": {"url": data_url(data)}}


BIG, SECONDS_30 = PICTURE + MEGABYTE, WAV + bytes(30 * 32_000)
OF_ANTHROPIC = {"type": "image", **source(BIG, PNG)}
SHAPES = {
    "openai chat": drawn(BIG),
    "openai chat, bare url": {"type": "image_url", "image_url": data_url(BIG)},
    "openai responses": {"type": "input_image", "image_url": data_url(BIG)},
    "anthropic": OF_ANTHROPIC,
    "v1": {"type": "image", "base64": encoded(BIG), "mime_type": PNG},
    "v0": {"type": "image", "source_type": "base64", "data": encoded(BIG)},
    "gemini media": {"type": "media", "mime_type": PNG, "data": BIG},
    "gemini part": {"inline_data": {"mime_type": PNG, "data": encoded(BIG)}},
    "bedrock": {"image": {"format": "png", "source": {"bytes": BIG}}},
    "file of a picture": {"type": "file", "mime_type": PNG, "base64": encoded(BIG)},
    "tool result": {"type": "tool_result", "tool_use_id": "", "content": [OF_ANTHROPIC]},
    "non standard": {"type": "non_standard", "value": OF_ANTHROPIC},
}
SOUNDS = {
    "openai": {"input_audio": {"data": encoded(SECONDS_30), "format": "wav"}},
    "v1": {"type": "audio", "base64": encoded(SECONDS_30), "mime_type": SOUND},
    "gemini": {"type": "media", "mime_type": SOUND, "data": encoded(SECONDS_30)},
}
SOUNDS["openai"]["type"] = "input_audio"
FILES = {
    "openai chat": {"type": "file", "file": {"file_data": data_url(MEGABYTE, PDF)}},
    "openai responses": {"type": "input_file", "file_data": data_url(MEGABYTE, PDF)},
    "anthropic": {"type": "document", **source(MEGABYTE, PDF)},
    "v1": {"type": "file", "base64": encoded(MEGABYTE), "mime_type": PDF},
    "gemini": {"type": "media", "mime_type": PDF, "data": MEGABYTE},
    "bedrock": {"document": {"format": "pdf", "source": {"bytes": MEGABYTE}}},
}
OF_ANY_SHAPE = [
    *(pytest.param(block, 765, id=f"picture, {shape}") for shape, block in SHAPES.items()),
    *(pytest.param(block, 30 * 32, id=f"sound, {shape}") for shape, block in SOUNDS.items()),
    *(pytest.param(block, 10 * 3_000, id=f"file, {shape}") for shape, block in FILES.items()),
]


@pytest.mark.parametrize(("block", "tokens"), OF_ANY_SHAPE)
def test_media_count_by_their_size_seconds_and_pages_in_every_shape(block, tokens):
    assert part(block) == pytest.approx(tokens, abs=2)  # a leaf of an unknown block is one


@pytest.mark.parametrize(
    ("size", "provider", "tokens"),
    [
        ((1024, 1024), "openai", 765),  # OpenAI's own examples
        ((2048, 4096), "openai", 1105),
        ((512, 512), "openai", 255),
        ((4096, 2048), "openai", 1105),
        ((1, 1), "openai", 255),
        ((10_000, 10), "openai", 85 + 4 * 170),
        ((1000, 1000), "anthropic", 1334),  # Anthropic's documentation
        ((200, 200), "anthropic", 54),
        ((3000, 3000), "anthropic", media.image_tokens((1568, 1568), "anthropic")),
        ((384, 384), "gemini", 258),
        ((960, 540), "gemini", 258 * 6),  # Google's example
        ((1000, 1000), "largest", 1334),
        ((512, 512), "largest", 350),
    ],
)
def test_images_count_by_the_rule_of_their_provider(size, provider, tokens):
    assert media.image_tokens(size, provider) == tokens
    if provider == "openai":
        assert part(drawn(png(*size))) == tokens


def test_an_image_counts_by_the_called_model_and_its_detail():
    assert part({"type": "image", **source(PICTURE, PNG)}, "claude-sonnet-4-5") == 1399
    low = {"url": data_url(PICTURE), "detail": "low"}
    assert part({"type": "image_url", "image_url": low}) == 85


@pytest.mark.parametrize("data", PICTURES.values(), ids=PICTURES)
def test_image_sizes_are_read_from_headers(data):
    assert media.image_size(data) == media.image_size(data_url(data)) == (640, 480)
    assert media.image_size(encoded(data)) == (640, 480)


MAGIC = st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF8", b"RIFF", b"BM"])


@given(st.binary(max_size=300), MAGIC)
def test_reading_image_and_audio_headers_never_raises_on_any_bytes(tail, magic):
    size = media.image_size(magic + tail)
    assert size is None or min(size) > 0
    assert media.audio_tokens(magic + tail) >= 0
    assert media.image_size(png(2**31, 1)) is None


# Sockets are blocked in all tests: a fetch would raise inside and be logged as a guess.
@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, 765),
        ({"type": "image", "file_id": "file-1"}, 765),
        ({"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}, 765),
        ({"type": "audio", "base64": encoded(MEGABYTE), "mime_type": "audio/mpeg"}, 2_000),
        ({"type": "audio", "url": "https://example.com/a"}, 60 * 32),
        ({"type": "video", "base64": encoded(MEGABYTE), "mime_type": "video/mp4"}, 8 * 295),
        ({"type": "video", "url": "https://example.com/a"}, 60 * 295),
        ({"type": "file", "file_id": "file-1"}, 3 * 3_000),
    ],
    ids=lambda one: str(one)[:40],
)
def test_media_without_a_header_or_by_url_count_a_default_and_are_not_fetched(block, tokens):
    assert part(block) == pytest.approx(tokens, abs=2)


def test_documents_of_plain_text_count_as_text():
    prose = "The quick brown fox jumps over the lazy dog. " * 20
    text = counter_for("gpt-4o").text(prose)
    plain = {"type": "text", "media_type": "text/plain", "data": prose}
    parts = {"type": "content", "content": [{"type": "text", "text": prose}]}
    for block in (
        {"type": "document", "source": plain},
        {"type": "document", "source": parts},
        {"type": "text-plain", "text": prose, "mime_type": "text/plain"},
    ):
        assert part(block) == text
    assert text <= part({"type": "text-plain", "base64": encoded(prose.encode())}) <= 2 * text


HEAD = "0123456789abcdef" * 20
PROSE = "The quick brown fox jumps over the lazy dog. " * 200
STDOUT = {"type": "bash_code_execution_result", "return_code": 0}
LISTED = {"mime_type": "image/png", "id": "7"}
TEXT_PLACES = {
    "unknown block": lambda s: {"type": "hologram", "payload": s},
    "key of an unknown block": lambda s: {"type": "hologram", s: 1},
    "bash": lambda s: {
        "type": "bash_code_execution_tool_result",
        "content": STDOUT | {"stdout": s},
    },
    "mcp_call": lambda s: {"type": "mcp_call", "id": "mcp_1", "name": "read", "output": s},
    "logs": lambda s: {"type": "code_interpreter_call", "outputs": [{"type": "logs", "logs": s}]},
    "server_tool_result": lambda s: {"type": "server_tool_result", "output": {"stdout": s}},
    "tool_result": lambda s: {"type": "tool_result", "tool_use_id": "t", "content": s},
    "data URL": lambda s: {"type": "hologram", "payload": "data:text/plain;base64," + s},
    "inside a block": lambda s: {"type": "hologram", "x": {"type": "image", "data": s}},
    "picture without a picture": lambda s: {"type": "image", "caption": s},
    "listing": lambda s: {"type": "tool_result", "content": [LISTED | {"description": s}]},
}
HEADS = [HEAD, encoded(bytes(range(256)) * 2), "/usr/lib/site-packages/" * 12, "A" * 300]


@pytest.mark.parametrize("place", TEXT_PLACES)
def test_text_that_begins_like_data_counts_as_text(place):
    for head in HEADS:
        text = head + PROSE
        assert part(TEXT_PLACES[place](text)) >= 0.95 * counter_for("gpt-4o").text(text)


def test_only_media_in_its_place_counts_as_media():
    picture = {"type": "image", "base64": encoded(MEGABYTE), "mime_type": PNG}
    shot = {"type": "computer_screenshot", "image_url": data_url(MEGABYTE)}
    for block in (
        picture,
        {"type": "tool_result", "tool_use_id": "t", "content": [picture]},
        {"type": "computer_call_output", "call_id": "c", "output": shot},
        {"type": "image_generation_call", "id": "ig_1", "result": encoded(MEGABYTE)},
    ):
        assert part(block) < 2_000
    assert part({"type": "hologram", "blob": b"ab" * 5_000}) > 1_000
