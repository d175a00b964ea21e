"""Headers of pictures and sounds, made by hand: they can be measured, not decoded."""

from __future__ import annotations

import base64
import struct


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
