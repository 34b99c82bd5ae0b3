"""What was taken down as rules of the index's blocklist: one file with the user's own, which the merge applies.

So a list that has changed is another input of the index, and the index is made anew; and one that was made without a
page cannot show it, whoever reads it: pywb, DuckDB, clients of Common Crawl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from webmill.forgotten import FOLDER, Forgotten, key_spans
from webmill.infra import atomic
from webmill.infra.files import os_errors

FILE = f"{FOLDER}/blocklist.txt"
_ABOUT = r"^urn:[a-z0-9-]+:https?://"  # keys of what a browser captured of a page
_ADDRESS = re.compile(r"https?://(?:www[0-9]*\.)?", re.IGNORECASE)
_SPECIAL = re.compile(r"([^A-Za-z0-9_ /,:;=&%~!<>@\"'#`-])")


def index_blocklist(root: Path, forgotten: Forgotten, own: Path | None) -> Path | None:
    """Return the file that an index is to be filtered by: `own`, if nothing was taken down, or both in one."""
    file = root / FILE
    if not forgotten:
        file.unlink(missing_ok=True)
        return own
    if own and not own.is_file():
        return own  # whoever reads it says what is wrong
    text = "\n".join(block_rules(forgotten)).encode() + b"\n"
    if own:
        with os_errors(str(own)):
            text = own.read_bytes().rstrip(b"\n") + b"\n" + text
    with os_errors(str(file)):
        is_same = file.is_file() and file.read_bytes() == text
    if not is_same:
        atomic.make_folder(file.parent)
        atomic.write_bytes(file, text)
    return file


def block_rules(forgotten: Forgotten) -> Iterator[str]:
    for rule in forgotten.rules:
        yield from _of_domain(rule.pattern) if not _ADDRESS.match(rule.pattern) else _of_address(rule.pattern)


def _of_domain(host: str) -> Iterable[str]:
    key = _escaped(key_spans(host)[0].start.removesuffix(")"))
    yield from (rf"^{key}\)", f"^{key},", f"^{key}:", f"^dns:{_escaped(host)} ")
    yield rf"{_ABOUT}(?:[^/ ]*\.)?{_escaped(host.lower())}[:/ ]"


def _of_address(pattern: str) -> Iterable[str]:
    (span,) = key_spans(pattern)
    rest = _escaped(_ADDRESS.sub("", pattern).removesuffix("*").lower())
    if pattern.endswith("*"):
        prefix = span.start
        yield f"^{_escaped(prefix)}"
        yield rf"{_ABOUT}(?:www[0-9]*\.)?{rest}"
        return
    path, _, query = span.start.partition("?")
    words = "&(?:[^ ]*&)?".join(_escaped(one) for one in query.split("&")) if query else ""
    yield f"^{_escaped(span.start)} "
    yield rf"^{_escaped(path)}\?__wb_method=[^ ]*{'&' + words if words else ''}(?:&[^ ]*)? "  # POST with a body
    yield rf"{_ABOUT}(?:www[0-9]*\.)?{rest.removesuffix('/')}/? "


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
