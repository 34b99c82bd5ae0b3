"""The languages of captured pages by CLD2, in a sandbox: it is C++ and reads hostile bytes.

The package is optional (`webmill[languages]`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from webmill.errors import BadInput, Misconfigured
from webmill.formats.cld2 import can_detect, suffix_of
from webmill.formats.languages import DetectedLanguages

Detect = Callable[[bytes, str, str], DetectedLanguages | None]  # UTF-8 of a page, its URL, its Content-Language


@contextmanager
def finding_languages() -> Iterator[Detect | None]:
    """Give a detector; None when CLD2 is not installed. It gives None for a page on which CLD2 breaks."""
    if not can_detect():
        yield None
        return
    from webmill.infra.sandbox import Sandbox  # a crawl without languages need not load it

    with Sandbox("webmill.formats.cld2:find_languages", returns=DetectedLanguages) as sandbox:

        def detect(page: bytes, url: str, said: str) -> DetectedLanguages | None:
            try:
                return sandbox.call(page, suffix=suffix_of(url), said=said[:256])
            except BadInput:
                return None

        yield detect


@contextmanager
def must_find_languages() -> Iterator[Detect]:
    """Give a detector. Misconfigured when CLD2 is not installed."""
    with finding_languages() as detect:
        if not detect:
            raise Misconfigured(
                "languages are detected by pycld2, which is not installed: pip install 'webmill[languages]'"
            )
        yield detect
