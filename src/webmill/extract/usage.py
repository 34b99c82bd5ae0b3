"""The columns of a document that say what its site allows: from the capture itself, and from what the crawler noted.

An archive of somebody else has no such notes: then the response says it, its page, and the files of its site, where
`site` has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.extract.cleaning import absolute_url, clean_text
from webmill.formats.preferences.capture import NO_SITE, SitePreferences, capture_statements, license_of
from webmill.formats.preferences.page import NOTHING_STATED, read_page
from webmill.formats.preferences.statements import SEARCH, TDM, TRAIN_AI, Statement, deciding, stated
from webmill.formats.warc.http_records import HttpResponse
from webmill.model import Document

AGENT = "webmill"
_CLUES = ("robots", "tdm-", "license", "rsl+xml", "creativecommons", AGENT)
COLUMNS = {"usage_search": SEARCH, "usage_train_ai": TRAIN_AI, "usage_tdm": TDM}


def with_usage(
    document: Document,
    http: HttpResponse | None,
    *,
    source: str = "",
    noted: Sequence[Statement] = (),
    site: SitePreferences = NO_SITE,
) -> Document:
    """Return the document with its usage columns. `source` is the text of an HTML page; `noted` is what the crawler
    wrote beside the capture, which counts together with what is found now."""
    page = read_page(source, agent=AGENT) if _may_state(source) else NOTHING_STATED
    found = list(noted)
    if http:
        own = capture_statements(document.url, http.status or 0, http.fields, page=page, site=site, agent=AGENT)
        found += [one for one in own if one not in found]
    link = license_of(http.fields, page) if http else page.license
    if not found and not link:
        return document
    sources = [one for usage in COLUMNS.values() if (one := deciding(found, usage))]
    return msgspec.structs.replace(
        document,
        **{name: stated(found, usage) for name, usage in COLUMNS.items()},
        usage_source=clean_text("; ".join(f"{one.source}: {one.text}" for one in dict.fromkeys(sources))) or None,
        license=absolute_url(document.url, link) if link else None,
    )


def _may_state(source: str) -> bool:
    """Tell whether a page may say something: most do not, and need not be read again."""
    if not source:
        return False
    lower = source.lower()
    return any(clue in lower for clue in _CLUES)
