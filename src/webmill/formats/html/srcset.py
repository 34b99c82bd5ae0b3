"""Find the URLs of a `srcset`: images with their sizes, separated by commas.

https://html.spec.whatwg.org/multipage/images.html#parse-a-srcset-attribute: a URL has no white space and may contain
commas, but not end in one; its description goes on to a comma that is not in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_S = r"\t\n\f\r "
_URL = re.compile(rf"[{_S},]*+([^{_S}]++)")
_DESCRIPTION = re.compile(r"[^,(]*+(?:\([^)]*+\)?+[^,(]*+)*+")


def read_srcset(value: str) -> Iterator[tuple[int, int]]:
    """Yield where each URL begins and ends."""
    at = 0
    while found := _URL.match(value, at):
        start, at = found.span(1)
        yield start, start + len(found[1].rstrip(","))
        if not found[1].endswith(","):
            at = _DESCRIPTION.match(value, at).end()  # type: ignore[union-attr]  # it matches nothing, too
