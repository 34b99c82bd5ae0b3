"""The languages of captured pages by CLD2, in a sandbox: it is C++ and reads hostile bytes.

The package is optional (`webmill[languages]`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from webmill.errors import BadInput, Misconfigured
from webmill.formats.cld2 import can_detect_languages, top_level_domain
from webmill.formats.languages import DetectedLanguages

LanguageDetector = Callable[
    [bytes, str, str], DetectedLanguages | None
]  # UTF-8 of a page, its URL, its Content-Language


@contextmanager
def open_language_detector() -> Iterator[LanguageDetector | None]:
    """Give a detector; None when CLD2 is not installed. It gives None for a page on which CLD2 breaks."""
    if not can_detect_languages():
        yield None
        return
    from webmill.infra.sandbox import Sandbox  # a crawl without languages need not load it

    with Sandbox("webmill.formats.cld2:detect_languages", returns=DetectedLanguages) as sandbox:

        def detect(page: bytes, url: str, said: str) -> DetectedLanguages | None:
            try:
                return sandbox.call(page, suffix=top_level_domain(url), said=said[:256])
            except BadInput:
                return None

        yield detect


@contextmanager
def require_language_detector() -> Iterator[LanguageDetector]:
    """Give a detector. Misconfigured when CLD2 is not installed."""
    with open_language_detector() as detect:
        if not detect:
            raise Misconfigured(
                "languages are detected by pycld2, which is not installed: pip install 'webmill[languages]'"
            )
        yield detect
