"""Lines with what is in them. A line that is no CDXJ is nobody's answer, and no reason to give none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, parse

Reject = Callable[[bytes, BadInput], None]


def parsed(lines: Iterable[bytes], on_reject: Reject | None) -> Iterator[tuple[bytes, CdxjLine]]:
    """`on_reject` is told of each line that is none, which is left out; without one, it is raised."""
    for line in lines:
        try:
            capture = parse(line)
        except BadInput as error:
            if on_reject is None:
                raise
            on_reject(line, error)
            continue
        yield line, capture
