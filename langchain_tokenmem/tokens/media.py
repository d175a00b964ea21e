"""Token counts of images, audio, video and files, by published rules.

Nothing is fetched; of inline data only the header is decoded, or the objects of a PDF. If size,
duration or pages cannot be read, a documented default is used.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from itertools import islice
from typing import Literal

ImageRule = Literal["openai", "anthropic", "gemini", "largest"]
"""Formula that counts images; `largest` takes the larger of OpenAI's and Anthropic's."""

# https://platform.openai.com/docs/guides/images-vision (tiles: GPT-4o, GPT-4.1, o-series; newer
# models are cheaper, and the higher number of the mini models is for billing only).
OPENAI_IMAGE_BASE, OPENAI_IMAGE_TILE, OPENAI_TILE_SIDE = 85, 170, 512
OPENAI_IMAGE_BOX, OPENAI_IMAGE_SHORT_SIDE = 2048, 768
# https://docs.claude.com/en/docs/build-with-claude/vision: width * height / 750, after scaling
# down to a longer side of 1,568 pixels.
ANTHROPIC_PIXELS_PER_TOKEN, ANTHROPIC_IMAGE_LONG_SIDE = 750, 1568
# https://ai.google.dev/gemini-api/docs/tokens: 258 up to 384 x 384, else 258 per tile of at most
# 768 pixels; 32 per second of audio, 263 per second of video.
GEMINI_TILE, GEMINI_SMALL_SIDE, GEMINI_TILE_SIDE, GEMINI_LEAST_TILE_SIDE = 258, 384, 768, 256
# An image of unknown size (a URL, a file id) counts as this one: 765 tokens by OpenAI's rule.
UNKNOWN_IMAGE_SIZE = (1024, 1024)

# Gemini's rate; OpenAI's is 10 per second (https://platform.openai.com/docs/guides/audio).
AUDIO_TOKENS_PER_SECOND = 32
# 128 kbit/s, a usual MP3; WAV headers state their own rate.
AUDIO_BYTES_PER_SECOND = 16_000
UNKNOWN_AUDIO_SECONDS = 60
# Video with its sound: 263 + 32.
VIDEO_TOKENS_PER_SECOND = 295
# 1 Mbit/s, a low rate: few bytes then still make long videos.
VIDEO_BYTES_PER_SECOND = 125_000
UNKNOWN_VIDEO_SECONDS = 60
# Anthropic: 1,500 to 3,000 tokens of text per PDF page, and the page is also seen as an image
# (https://docs.claude.com/en/docs/build-with-claude/pdf-support).
FILE_TOKENS_PER_PAGE = 3_000
FILE_BYTES_PER_PAGE = 100_000  # if the pages cannot be counted
UNKNOWN_FILE_PAGES = 3
# Text files sent as data: three bytes per token is on the safe side for prose, code and Chinese.
TEXT_BYTES_PER_TOKEN = 3

_HEADER_BYTES = 64
# EXIF data may precede a JPEG's size: 64 kB is the largest such segment.
_JPEG_HEADER_BYTES = 98_304
# No provider accepts larger images: a header that says so is damaged.
_LONGEST_SIDE = 65_535


def image_tokens(size: tuple[int, int] | None, rule: ImageRule, *, low_detail: bool = False) -> int:
    """Return the tokens of an image.

    Args:
        size: Width and height in pixels; None if unknown.
        rule: Formula to use.
        low_detail: OpenAI's `detail="low"`: the base price whatever the size.

    Returns:
        Tokens.

    Example:
        >>> image_tokens((1024, 1024), "openai")
        765
    """
    width, height = size or UNKNOWN_IMAGE_SIZE
    if rule == "anthropic":
        return _anthropic_image(width, height)
    if rule == "gemini":
        return _gemini_image(width, height)
    openai = OPENAI_IMAGE_BASE if low_detail else _openai_image(width, height)
    return (
        openai if rule == "openai" or low_detail else max(openai, _anthropic_image(width, height))
    )


def _openai_image(width: int, height: int) -> int:
    scale = min(1.0, OPENAI_IMAGE_BOX / max(width, height))
    scale *= min(1.0, OPENAI_IMAGE_SHORT_SIDE / (min(width, height) * scale))
    # Rounding first keeps 2048 * (768 / 2048) from becoming a little more than 768.
    across = math.ceil(round(width * scale, 6) / OPENAI_TILE_SIDE)
    down = math.ceil(round(height * scale, 6) / OPENAI_TILE_SIDE)
    return OPENAI_IMAGE_BASE + OPENAI_IMAGE_TILE * across * down


def _anthropic_image(width: int, height: int) -> int:
    scale = min(1.0, ANTHROPIC_IMAGE_LONG_SIDE / max(width, height))
    return math.ceil(width * scale * height * scale / ANTHROPIC_PIXELS_PER_TOKEN)


def _gemini_image(width: int, height: int) -> int:
    if max(width, height) <= GEMINI_SMALL_SIDE:
        return GEMINI_TILE
    side = min(max(int(min(width, height) / 1.5), GEMINI_LEAST_TILE_SIDE), GEMINI_TILE_SIDE)
    return GEMINI_TILE * math.ceil(width / side) * math.ceil(height / side)


def audio_tokens(data: str | bytes | None) -> int:
    """Return the tokens of audio: by a WAV header's rate, else 16 kB/s; a minute if unknown.

    Args:
        data: Base64 text, a data URL or raw bytes; None where only a reference is known.

    Returns:
        Tokens.
    """
    if data is None:
        return UNKNOWN_AUDIO_SECONDS * AUDIO_TOKENS_PER_SECOND
    head = leading_bytes(data)
    rate = AUDIO_BYTES_PER_SECOND
    if head[:4] == b"RIFF" and head[8:16] == b"WAVEfmt " and len(head) >= 32:  # noqa: PLR2004
        rate = int.from_bytes(head[28:32], "little") or rate
    return math.ceil(byte_length(data) / rate * AUDIO_TOKENS_PER_SECOND)


def video_tokens(data: str | bytes | None) -> int:
    """Return the tokens of video: 1 Mbit/s; a minute if unknown."""
    seconds = UNKNOWN_VIDEO_SECONDS if data is None else byte_length(data) / VIDEO_BYTES_PER_SECOND
    return math.ceil(max(1, seconds) * VIDEO_TOKENS_PER_SECOND)


def file_tokens(data: str | bytes | None, mime_type: str = "") -> int:
    """Return the tokens of a document: by a PDF's pages, else by pages of 100 kB; three if unknown.

    Args:
        data: Base64 text, a data URL or raw bytes; None where only a reference is known.
        mime_type: `text/*`, JSON and XML count three bytes per token instead.

    Returns:
        Tokens.
    """
    if data is None:
        return UNKNOWN_FILE_PAGES * FILE_TOKENS_PER_PAGE
    if mime_type.startswith("text/") or mime_type.endswith(("json", "xml", "yaml")):
        return math.ceil(byte_length(data) / TEXT_BYTES_PER_TOKEN)
    pages = _pdf_pages(data) or math.ceil(byte_length(data) / FILE_BYTES_PER_PAGE)
    return max(1, pages) * FILE_TOKENS_PER_PAGE


_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PDF_OBJECTS = re.compile(rb"/ObjStm\b.{0,300}?stream\r?\n", re.DOTALL)
# A compressed object stream has about a hundred small objects.
_MOST_OBJECT_BYTES, _MOST_OBJECT_STREAMS = 1_000_000, 10_000


def _pdf_pages(data: str | bytes) -> int:
    """Return the page objects of a PDF, those in compressed object streams too; 0 if unreadable."""
    if not leading_bytes(data).startswith(b"%PDF-"):
        return 0
    file = leading_bytes(data, byte_length(data))
    pages = len(_PDF_PAGE.findall(file))
    for found in islice(_PDF_OBJECTS.finditer(file), _MOST_OBJECT_STREAMS):
        try:
            start = memoryview(file)[found.end() :]
            objects = zlib.decompressobj().decompress(start, _MOST_OBJECT_BYTES)
        except zlib.error:  # encrypted, or compressed in another way
            continue
        pages += len(_PDF_PAGE.findall(objects))
    return pages


def byte_length(data: str | bytes) -> int:
    """Return how many bytes base64 text, a data URL or raw bytes stand for, without decoding."""
    if isinstance(data, str):
        padding = 2 if data.endswith("==") else int(data.endswith("="))
        return max(0, (len(data) - _payload_start(data)) * 3 // 4 - padding)
    return len(data)


def leading_bytes(data: str | bytes, most: int = _HEADER_BYTES) -> bytes:
    """Return the first bytes of base64 text, a data URL or raw bytes; empty if undecodable."""
    if isinstance(data, bytes):
        return data[:most]
    start = _payload_start(data)
    encoded = data[start : start + most * 4 // 3].translate(_TO_STANDARD_BASE64)
    try:
        return base64.b64decode(encoded[: len(encoded) // 4 * 4])
    except ValueError:
        return b""


_TO_STANDARD_BASE64 = str.maketrans("-_", "+/", " \r\n\t")


def _payload_start(data: str) -> int:
    return data.find(",", 0, 300) + 1 if data.startswith("data:") else 0


def image_size(data: str | bytes) -> tuple[int, int] | None:
    """Return width and height of an inline image, or None if its header does not say.

    Reads PNG, JPEG, GIF, WebP and BMP headers; pixels are never decoded.

    Args:
        data: Base64 text, a data URL or raw bytes.

    Returns:
        Width and height in pixels.
    """
    head = leading_bytes(data)
    try:
        if head.startswith(b"\xff\xd8"):
            sides = _jpeg(leading_bytes(data, _JPEG_HEADER_BYTES))
        elif head.startswith(b"RIFF"):
            sides = _webp(head)
        else:
            layout = next(layout for magic, layout in _LAYOUTS.items() if head.startswith(magic))
            sides = struct.unpack_from(layout, head)
    except (StopIteration, struct.error, ValueError):
        return None
    # The negative height of a BMP means rows from top to bottom.
    width, height = map(abs, sides)
    plausible = 0 < width <= _LONGEST_SIDE and 0 < height <= _LONGEST_SIDE
    return (width, height) if plausible else None


# Place and form (`struct`) of width and height, by the first bytes of the file.
_LAYOUTS = {b"\x89PNG\r\n\x1a\n": ">16xII", b"GIF8": "<6xHH", b"BM": "<18xii"}


def _webp(head: bytes) -> tuple[int, ...]:
    kind = head[12:16]
    if kind == b"VP8X":
        return tuple(1 + int.from_bytes(head[at : at + 3], "little") for at in (24, 27))
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", head[26:30])
    return width & 0x3FFF, height & 0x3FFF


# Start-of-frame markers carry the size; 0xC4, 0xC8 and 0xCC are tables.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg(head: bytes) -> tuple[int, ...]:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:  # noqa: PLR2004  # every JPEG marker starts with FF
            break
        marker = head[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        # FF may be repeated as padding before a marker.
        at += 1 if marker == 0xFF else 2 + int.from_bytes(head[at + 2 : at + 4], "big")  # noqa: PLR2004
    raise ValueError("no frame header")
