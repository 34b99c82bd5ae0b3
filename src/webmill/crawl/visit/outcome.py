"""What came of visiting one URL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.crawl.frontier.base import Outcome, RobotsEntry
from webmill.crawl.yields.page_sample import PageSample
from webmill.formats.warc.capture import Capture, PageRecord
from webmill.model import Link


class VisitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one URL of a turn. `next` ends the turn: the domain may be asked again from then on."""

    token: int  # of the turn
    outcome: Outcome | None
    captures: Sequence[Capture] = ()  # of robots.txt files, of what a browser asked for, and of the URL itself
    records: Sequence[PageRecord] = ()  # what was made of the page in a browser
    links: Sequence[Link] = ()
    robots: RobotsEntry | None = None  # a robots.txt that was fetched on the way
    next: float | None = None
    sample: PageSample | None = None  # what the page shows, when it was fetched for the first time
    was_handed_out: bool = True  # it was given to a visitor
    is_revisit: bool = False  # of a page that was archived before
    again: Sequence[str] = ()  # redirects that were visited, and would be answered otherwise by now
    is_repeated: bool = False  # of a URL that was visited before, whatever came of it
