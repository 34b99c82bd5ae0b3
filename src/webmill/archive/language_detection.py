"""Detect the languages of captured pages by CLD2, in a sandbox: it is C++ and reads hostile bytes.

The package is optional (`webmill[languages]`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from webmill.errors import BadInput, Misconfigured
from webmill.formats.cld2 import DetectorInput, can_detect_languages
from webmill.formats.languages import DetectedLanguages

# The languages of each sample; None for a page on which CLD2 fails.
LanguageDetector = Callable[[Sequence[DetectorInput]], list[DetectedLanguages | None]]

# Samples of one call: to hand a page to another process and to wait for it costs as much as half of CLD2's work.
MOST_SAMPLES = 16
MOST_PAGES = 10_000  # of one process


@contextmanager
def open_language_detector() -> Iterator[LanguageDetector | None]:
    """Yield a detector, or None if CLD2 is not installed."""
    if not can_detect_languages():
        yield None
        return
    from webmill.infra.sandbox import Sandbox  # imported late: a crawl without languages does not need it

    with Sandbox(
        "webmill.formats.cld2:detect_languages_of_all",
        returns=list[DetectedLanguages],
        recycle_calls=MOST_PAGES // MOST_SAMPLES,
    ) as sandbox:
        yield make_detector(sandbox.call)


def make_detector(call: Callable[[list[DetectorInput]], list[DetectedLanguages]]) -> LanguageDetector:
    """Return a detector that makes as few calls as it can; one that fails is repeated page by page."""

    def detect(samples: Sequence[DetectorInput]) -> list[DetectedLanguages | None]:
        if len(samples) > MOST_SAMPLES:
            return [*detect(samples[:MOST_SAMPLES]), *detect(samples[MOST_SAMPLES:])]
        try:
            found = call(list(samples)) if samples else []
        except BadInput:
            found = []
        if len(found) == len(samples):
            return [*found]
        return [None] if len(samples) == 1 else [one for sample in samples for one in detect([sample])]

    return detect


@contextmanager
def require_language_detector() -> Iterator[LanguageDetector]:
    """Yield a detector. Raise Misconfigured if CLD2 is not installed."""
    with open_language_detector() as detect:
        if not detect:
            raise Misconfigured("pycld2, which detects languages, is not installed: pip install 'webmill[languages]'")
        yield detect
