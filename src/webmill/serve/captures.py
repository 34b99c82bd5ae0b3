"""The captures of a site: found and opened as in `pipeline.captures`, asked for as the server is."""

from __future__ import annotations

from collections.abc import Iterator

from webmill.index.lookup import Index
from webmill.pipeline import archived, captures
from webmill.pipeline.archived import PIECE, Archived
from webmill.pipeline.captures import Line, after, before
from webmill.serve.archived_address import Asked
from webmill.serve.site import Site

__all__ = ["PIECE", "Archived", "Line", "after", "before", "nearest", "open_capture", "open_record"]


def nearest(index: Index, asked: Asked) -> Iterator[Line]:
    return captures.nearest(index, asked.url, moment=asked.moment)


def open_capture(site: Site, index: Index, line: Line) -> Archived:
    """`index`: where `line` was found. Which indexes there are is asked once for a request: that lists folders."""
    return archived.open_capture(index, site.files, line)


def open_record(site: Site, line: Line) -> Archived:
    return archived.open_record(site.files, line)
