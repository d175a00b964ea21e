"""Counts of what a request holds: a PDF counts by its pages."""

import base64
import os
import zlib

import pytest
from langchain_core.messages import HumanMessage

from langchain_tokenmem import TokenBudget, TokenMemory

A_PAGE = 3_000
WINDOW = 200_000


def memory() -> TokenMemory:
    return TokenMemory(TokenBudget(WINDOW, model="claude-sonnet-4-5"))


def question(pdf: bytes) -> HumanMessage:
    data = base64.b64encode(pdf).decode()
    file = {"type": "file", "base64": data, "mime_type": "application/pdf"}
    return HumanMessage([{"type": "text", "text": "Sum it up."}, file])


def page_objects(pages: int) -> bytes:
    tree = b"1 0 obj\n<< /Type /Pages /Count %d >>\nendobj\n" % pages
    one = b"%d 0 obj\n<</Parent 1 0 R/Type/Page/MediaBox [0 0 9 9]>>\nendobj\n"
    return tree + b"".join(one % n for n in range(2, pages + 2))


def plain_pdf(pages: int, scanned: int) -> bytes:
    return b"%PDF-1.4\n" + page_objects(pages) + os.urandom(scanned)


def compressed_pdf(pages: int, scanned: int) -> bytes:
    """Return a PDF as most programs write it since 1.5: its objects in compressed streams."""
    packed = zlib.compress(page_objects(pages))
    head = b"9 0 obj\n<</Type/ObjStm/N %d/First 80/Filter/FlateDecode/Length %d>>\nstream\r\n"
    stream = head % (pages, len(packed)) + packed + b"\nendstream\nendobj\n"
    return b"%PDF-1.7\n" + os.urandom(scanned // 2) + stream + os.urandom(scanned // 2)


@pytest.mark.parametrize("made", [plain_pdf, compressed_pdf])
@pytest.mark.parametrize(("pages", "scanned"), [(1, 200), (10, 2_000_000), (40, 50_000)])
def test_a_pdf_counts_by_its_pages_whatever_its_size(made, pages, scanned):
    tokens = memory().count([question(made(pages, scanned))]).tokens
    assert pages * A_PAGE <= tokens <= pages * A_PAGE + 50


def test_a_scanned_pdf_that_fits_is_not_cut_away():
    asked = question(plain_pdf(10, 2_000_000))
    view = memory().view([asked])
    assert view.messages[0].content == asked.content
    assert view.warnings == ()


@pytest.mark.parametrize("pdf", [b"%PDF-1.7\n/ObjStm stream\n" + b"\xff" * 500_000, b"%PDF-"])
def test_a_pdf_that_cannot_be_read_counts_by_its_bytes(pdf):
    pages = max(1, -(-len(pdf) // 100_000))
    assert pages * A_PAGE <= memory().count([question(pdf)]).tokens <= pages * A_PAGE + 50


def test_a_compression_bomb_is_not_inflated():
    bomb = zlib.compress(b"/Type /Page " * 1_000_000)
    pdf = b"%PDF-1.7\n" + b"<</Type/ObjStm/Filter/FlateDecode>>stream\n" + bomb
    assert memory().count([question(pdf)]).tokens < 100_000 * A_PAGE


def test_an_image_is_counted_by_its_size_and_not_by_its_link():
    link = {"type": "image_url", "image_url": {"url": "https://example.com/crate.png"}}
    memory = TokenMemory(TokenBudget(8_000, model="gpt-4o"))
    shown = memory.count([HumanMessage(["What is it?", link])]).tokens
    asked = memory.count([HumanMessage(["What is it?"])]).tokens
    assert 700 < shown - asked < 900, "of an image that is not at hand a usual size is assumed"
