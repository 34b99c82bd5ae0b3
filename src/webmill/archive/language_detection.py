"""Detect the languages of captured pages by CLD2, in a sandbox: it is C++ and reads hostile bytes.

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
    """Yield a detector, or None if CLD2 is not installed. The detector returns None for a page on which CLD2 fails."""
    if not can_detect_languages():
        yield None
        return
    from webmill.infra.sandbox import Sandbox  # imported late: a crawl without languages does not need it

    with Sandbox("webmill.formats.cld2:detect_languages", returns=DetectedLanguages) as sandbox:

        def detect(page: bytes, url: str, content_language: str) -> DetectedLanguages | None:
            try:
                return sandbox.call(page, tld=top_level_domain(url), content_language=content_language[:256])
            except BadInput:
                return None

        yield detect


@contextmanager
def require_language_detector() -> Iterator[LanguageDetector]:
    """Yield a detector. Raise Misconfigured if CLD2 is not installed."""
    with open_language_detector() as detect:
        if not detect:
            raise Misconfigured("pycld2, which detects languages, is not installed: pip install 'webmill[languages]'")
        yield detect
