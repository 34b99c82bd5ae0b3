"""What documents are made with besides our own parsers: other people's, each in a killable child that starts with the
first call, and only where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

from webmill.errors import BadInput
from webmill.extract import pdf
from webmill.extract.content import ReadPdf
from webmill.extract.document import Detect, Readers
from webmill.formats.cld2 import MOST_BYTES, can_detect, suffix_of
from webmill.formats.languages import Languages
from webmill.infra.sandbox import Sandbox


@contextmanager
def opened_readers() -> Iterator[Readers]:
    with ExitStack() as stack:
        yield Readers(
            pdf=stack.enter_context(reading_pdf()) if find_spec(pdf.PACKAGE) else None,
            detect=stack.enter_context(detecting()) if can_detect() else None,
        )


@contextmanager
def reading_pdf() -> Iterator[ReadPdf]:
    with Sandbox(pdf.FUNCTION, returns=pdf.PdfText, limits=pdf.CHILD) as sandbox:
        yield lambda data: pdf.content_of(sandbox.call(data))


@contextmanager
def detecting() -> Iterator[Detect]:
    """The languages of a text by CLD2; none where it cannot tell, or breaks."""
    with Sandbox("webmill.formats.cld2:find_languages", returns=Languages) as sandbox:

        def detect(text: str, url: str, said: str) -> tuple[str, ...]:
            try:
                page = text[:MOST_BYTES].encode("utf-8", "replace")[:MOST_BYTES]
                return sandbox.call(page, suffix=suffix_of(url), said=said[:256]).codes
            except BadInput:
                return ()

        yield detect
