"""Revisits beside their originals: where the body lies that a revisit does not have (pywb's `resolveRevisits`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdxj import Value, format_line
from webmill.index.parsed import Reject, parsed

MOST_ORIGINALS = 100_000  # that are held at once
PLACE = ("length", "offset", "filename")


def resolve(lines: Iterable[bytes], *, on_reject: Reject | None = None) -> Iterator[bytes]:
    """Every line gets `orig.length`, `orig.offset` and `orig.filename`, those of the first capture before it with the
    same digest if it is a revisit of one, else `-`; a resolved revisit gets the type and status of its original too.

    BadInput (too_many) when more originals would have to be held than is sensible. `on_reject` as in `parsed`.
    """
    originals: dict[str, dict[str, Value]] = {}
    for _, capture in parsed(lines, on_reject):
        fields, digest = dict(capture.fields), capture.text("digest")
        original = originals.get(digest) if digest else None
        is_revisit = capture.text("mime") == "warc/revisit" or capture.text("filename") == "-"
        if original is None and digest and not is_revisit:
            if len(originals) == MOST_ORIGINALS:
                raise BadInput(f"more than {MOST_ORIGINALS} originals: ask for pages", reason="too_many")
            originals[digest] = {name: fields[name] for name in (*PLACE, "mime", "status") if name in fields}
        source = original if original is not None and is_revisit else None
        if source is not None:
            fields |= {name: source.get(name, "") for name in ("mime", "status") if name in fields}
        fields |= {f"orig.{name}": source.get(name, "-") if source is not None else "-" for name in PLACE}
        yield format_line(msgspec.structs.replace(capture, fields=fields))
