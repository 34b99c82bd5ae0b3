"""Copies that a site forbids to be shown: `noarchive` in its answer or its page closes replay to others.

Who "others" are, `[serve] noarchive` says: by default whoever can reach a server that is not for this machine alone. A
deposit library that may show them says `nobody`.
"""

from __future__ import annotations

from webmill.errors import NotFound
from webmill.formats.preferences.capture import capture_statements
from webmill.formats.preferences.page import head_of, read_page
from webmill.formats.preferences.statements import REPLAY, deciding
from webmill.index.lookup.indexes import CaptureIndex
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import CaptureReader, open_capture
from webmill.serve.captures.response import parse_content_type, read_up_to
from webmill.serve.site import Site

MOST_READ = 128 << 10  # bytes of a page: its head
PAGES = ("text/html", "application/xhtml+xml", "")
AGENT = "webmill"


class ReplayClosed(NotFound):
    """The site of a page does not allow copies of it to be shown."""


def open_for_client(site: Site, index: CaptureIndex, capture: CaptureRef) -> CaptureReader:
    """Return an open capture, to be closed by the caller. `ReplayClosed`: its site forbids to show it."""
    archived = open_capture(index, site.files, capture)
    if site.closes_noarchive:
        try:
            refuse_closed(site, index, archived)
        except BaseException:
            archived.close()
            raise
    return archived


def refuse_closed_record(site: Site, index: CaptureIndex, capture: CaptureRef) -> None:
    """Raise `ReplayClosed` if the record of a capture may not be shown. A revisit that leads nowhere has no content."""
    if not site.closes_noarchive:
        return
    try:
        open_for_client(site, index, capture).close()
    except ReplayClosed:
        raise
    except NotFound:
        pass


def refuse_closed(site: Site, index: CaptureIndex, archived: CaptureReader) -> None:
    """Raise `ReplayClosed` if the answer or the head of its page forbids copies."""
    page = read_page(head_of(read_head(site, index, archived)), agent=AGENT)
    found = deciding(
        capture_statements(archived.capture.url, archived.status, archived.headers, page=page, agent=AGENT), REPLAY
    )
    if found and not found.allowed:
        raise ReplayClosed(
            f"its site does not allow copies to be shown ({found.source}: {found.text}); the operator of this archive "
            "decides who may see it"
        )


def read_head(site: Site, index: CaptureIndex, archived: CaptureReader) -> bytes:
    """Return the first bytes of a page, by a reader of its own; of anything else nothing."""
    if parse_content_type(archived.content_type)[0] not in PAGES:
        return b""
    reader = open_capture(index, site.files, archived.capture)
    try:
        return read_up_to(reader.content(), MOST_READ)[0]
    finally:
        reader.close()
