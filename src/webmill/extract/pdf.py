"""The text of PDF files by pypdf, which is optional: `webmill[pdf]`.

To be called in a sandbox: it is given whatever the web has, and whatever it raises is the answer.
"""

from __future__ import annotations

import io
import logging
from importlib import import_module

import msgspec

from webmill.errors import BadInput
from webmill.extract.content import Content, tidied
from webmill.extract.head import Head, clean
from webmill.formats.html import MAX_PAGE
from webmill.infra.child import Limits

FUNCTION = "webmill.extract.pdf:read_pdf"
PACKAGE = "pypdf"
MIB = 1 << 20
CHILD = Limits(cpu=60, wall=300, memory=1024 * MIB, output=64 * MIB, written=MIB, may_fork=False)
MOST_PAGES = 2000  # of a file; the rest is not read
_LONGEST = 500  # characters of a title


class PdfText(msgspec.Struct, frozen=True):
    title: str | None
    text: str


def read_pdf(data: bytes) -> PdfText:
    """BadInput `encrypted` for one that needs a password."""
    logging.getLogger(PACKAGE).setLevel(logging.CRITICAL)  # it tells of every oddity of a file
    reader = import_module(PACKAGE).PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise BadInput("it needs a password", reason="encrypted")
    texts: list[str] = []
    room = MAX_PAGE
    for number, page in enumerate(reader.pages):
        if number == MOST_PAGES or room <= 0:
            break
        texts.append(page.extract_text()[:room])
        room -= len(texts[-1])
    title = reader.metadata.title if reader.metadata else None  # of whatever type
    return PdfText(
        clean(title[:_LONGEST].strip() or None) if isinstance(title, str) else None, clean("\n".join(texts)) or ""
    )


def content_of(pdf: PdfText) -> Content:
    return Content(kind="pdf", head=Head(title=pdf.title, text=tidied(pdf.text)))
