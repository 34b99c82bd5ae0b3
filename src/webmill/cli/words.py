"""How the commands speak of numbers, and of what strangers wrote."""

from __future__ import annotations

import json
import re

from webmill.pipeline.progress import format_count as counted

__all__ = ["ago", "counted", "escaped", "json_line", "printable", "shown", "worded"]

_UNPRINTABLE = re.compile(rb"[\x00-\x1f\x7f]")


def worded(code: str) -> str:
    """`not_html`, which metrics and logs say, for people."""
    return code.replace("_", " ")


def printable(text: str) -> str:
    """What a stranger's message says moves no cursor and makes no line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def escaped(line: bytes) -> bytes:
    r"""The same for bytes of which nothing may be lost: `\x1b`."""
    return _UNPRINTABLE.sub(lambda found: b"\\x%02x" % found[0][0], line)


def shown(text: str) -> str:
    r"""The same for text: a URL from an archive cannot move the cursor, and still says what it is."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def ago(seconds: float) -> str:
    """`5 s ago`, `12 min ago`, `3 h ago`, `2 days ago`."""
    for size, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= (2 if unit == "day" else 1) * size:
            number = int(seconds // size)
            return f"{number:,} {unit}{'s' * (unit == 'day')} ago"
    return f"{max(0, int(seconds))} s ago"


def json_line(value: object) -> str:
    """Of plain values. A file's name that is no UTF-8 is escaped, which is no reason to say nothing."""
    return json.dumps(value, separators=(",", ":"))
