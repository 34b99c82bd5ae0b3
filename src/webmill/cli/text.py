"""How commands print numbers, times, sizes, and text that comes from the web."""

from __future__ import annotations

import json
import re

from webmill.pipeline.progress import format_count

__all__ = [
    "escape_bytes",
    "escape_text",
    "format_ago",
    "format_count",
    "format_duration",
    "format_size",
    "json_line",
    "replace_unprintable",
    "spell_out",
]

_UNPRINTABLE = re.compile(rb"[\x00-\x1f\x7f]")


def spell_out(code: str) -> str:
    """Return a code of metrics and logs as words: `not_html` as `not html`."""
    return code.replace("_", " ")


def replace_unprintable(text: str) -> str:
    """Return text from the web with spaces for characters that would move the cursor or break the line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def escape_bytes(line: bytes) -> bytes:
    r"""Return `line` with control characters written as `\x1b`, so that nothing of it is lost."""
    return _UNPRINTABLE.sub(lambda found: b"\\x%02x" % found[0][0], line)


def escape_text(text: str) -> str:
    r"""Return `text` with unprintable characters written as `\x1b`: a URL from an archive cannot move the cursor."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def format_ago(seconds: float) -> str:
    """Return `5 s ago`, `12 min ago`, `3 h ago` or `2 days ago`."""
    for size, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= (2 if unit == "day" else 1) * size:
            number = int(seconds // size)
            return f"{number:,} {unit}{'s' * (unit == 'day')} ago"
    return f"{max(0, int(seconds))} s ago"


def format_duration(seconds: float) -> str:
    """Return `1:02:03`, in hours, minutes and seconds."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def format_size(size: float) -> str:
    """Return `123 B`, `1.5 KB`, `20.0 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def json_line(value: object) -> str:
    """Return plain values as one line of JSON. File names that are not UTF-8 are escaped, not refused."""
    return json.dumps(value, separators=(",", ":"))
