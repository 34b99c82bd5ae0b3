"""What documents are made with besides our own parsers: other people's, each in a killable child that starts with the
first call, and only where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

from webmill.archive.language import MOST_BYTES, suffix_of
from webmill.errors import BadInput
from webmill.extract import pdf
from webmill.extract.content import ReadPdf
from webmill.extract.document import Detect, Readers
from webmill.infra.sandbox import Sandbox


@contextmanager
def opened_readers() -> Iterator[Readers]:
    with ExitStack() as stack:
        yield Readers(
            pdf=stack.enter_context(reading_pdf()) if find_spec(pdf.PACKAGE) else None,
            detect=stack.enter_context(detecting()) if find_spec("pycld2") else None,
        )


@contextmanager
def reading_pdf() -> Iterator[ReadPdf]:
    with Sandbox(pdf.FUNCTION, returns=pdf.PdfText, limits=pdf.CHILD) as sandbox:
        yield lambda data: pdf.content_of(sandbox.call(data))


@contextmanager
def detecting() -> Iterator[Detect]:
    """The languages of a text by CLD2; none where it cannot tell, or breaks."""
    with Sandbox("webmill.archive.language:detect_languages", returns=tuple[str, ...]) as sandbox:

        def detect(text: str, url: str, said: str) -> tuple[str, ...]:
            try:
                return sandbox.call(
                    text[:MOST_BYTES].encode("utf-8", "replace")[:MOST_BYTES], suffix=suffix_of(url), said=said[:256]
                )
            except BadInput:
                return ()

        yield detect
