"""The languages of a page by CLD2, as Common Crawl asks it: on the HTML itself, with the hints that a capture gives.

CLD2 is C++ and reads hostile bytes, so it runs in a sandbox. The package is optional (`webmill[languages]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from webmill.archive.capture import Capture
from webmill.archive.cld2 import ISO_639_3, ask_cld2, suffix_of
from webmill.archive.derive_wet import Detect
from webmill.errors import BadInput, Misconfigured
from webmill.infra.sandbox import Sandbox

__all__ = ["MOST_BYTES", "detect_languages", "detecting", "suffix_of"]

MOST_BYTES = 1 << 20  # of a page; what follows does not change its languages


@contextmanager
def detecting() -> Iterator[Detect]:
    """A detector of the languages of captured pages; one that cannot tell, or breaks, gives none."""
    if find_spec("pycld2") is None:
        raise Misconfigured(
            "languages are detected by pycld2, which is not installed: pip install 'webmill[languages]'"
        )
    with Sandbox("webmill.archive.language:detect_languages", returns=tuple[str, ...]) as sandbox:

        def detect(capture: Capture) -> tuple[str, ...]:
            assert capture.response  # a page has one
            page = capture.response.text.text.encode("utf-8", "replace")[:MOST_BYTES]
            said = capture.response.fields.get("Content-Language") or ""
            try:
                return sandbox.call(page, suffix=suffix_of(capture.record.target_uri or ""), said=said)
            except BadInput:
                return ()

        yield detect


def detect_languages(page: bytes, *, suffix: str = "", said: str = "") -> tuple[str, ...]:
    """ISO-639-3 codes of UTF-8 HTML, the one with the most text first, three at most."""
    _, _, found = ask_cld2(page, suffix=suffix, said=said)
    return tuple(dict.fromkeys(ISO_639_3[code] for _, code, _, _ in found))
