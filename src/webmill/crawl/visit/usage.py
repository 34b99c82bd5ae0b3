"""What a site says of the use of a page, as a crawl learns it: before the request, and from the answer.

Before the request a robots.txt may say it; the answer says more, in its head and in the page's. The files of a site,
`tdmrep.json` and RSL documents, count from when this crawl has met them, also after a restart (`site_files.py`): what
was fetched before is judged by those who read the archive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.options import ROBOTS_NAME, UsagePolicy
from webmill.crawl.politeness.robots import RobotsVerdict
from webmill.crawl.visit.site_files import MOST_ORIGINS, SiteFiles
from webmill.formats.preferences.capture import (
    SitePreferences,
    capture_statements,
    license_of,
    path_of,
)
from webmill.formats.preferences.decision import UsageDecision, decide
from webmill.formats.preferences.llms_txt import PATH as LLMS
from webmill.formats.preferences.notes import note_fields
from webmill.formats.preferences.page import NOTHING_STATED, head_of, read_page
from webmill.formats.preferences.rsl import RslContent, read_rsl
from webmill.formats.preferences.tdm import PATH as TDMREP
from webmill.formats.preferences.tdm import TdmLocation, read_tdm_file
from webmill.formats.url.normalise import origin_of

ALLOWED = UsageDecision()


class UsageReading(msgspec.Struct, frozen=True):
    """What was said of a capture: the fields that are archived with it, and what follows for the crawl."""

    fields: tuple[tuple[str, str], ...] = ()
    decision: UsageDecision = ALLOWED

    @property
    def is_denied(self) -> bool:
        return self.decision.outcome == "deny"

    @property
    def error(self) -> str:
        """Return why the page is not kept, as the frontier notes it; or nothing."""
        statement = self.decision.statement
        if not self.is_denied or statement is None:
            return ""
        kind = "payment" if statement.source == "price" else "usage"
        return f"{kind}: {self.decision.rule} by {statement.source} {statement.text}"[:500]


NOTHING_SAID = UsageReading()


class UsageReader:
    """Reads and decides for one crawl. Not for several threads."""

    def __init__(self, policy: UsagePolicy, *, known: Iterable[tuple[str, SiteFiles]] = ()) -> None:
        """`known`: the files of sites that were met before, the last one met at the end."""
        self._policy = policy
        self._files = OrderedDict(known)
        self._changes: dict[str, SiteFiles] = {}

    def before(self, url: str, verdict: RobotsVerdict) -> UsageReading:
        """Return what is known before a URL is requested."""
        if not verdict.usage.rules:
            return NOTHING_SAID
        statements = verdict.usage.statements(path_of(url), revision=self._policy.revision)
        return UsageReading(decision=decide(self._policy.purpose, statements))

    def read(self, url: str, fetched: FetchedResponse, verdict: RobotsVerdict, *, is_page: bool) -> UsageReading:
        """Return what is said of an answer. `is_page`: it is HTML, whose head may say something."""
        head = head_of(fetched.payload) if is_page else ""
        page = read_page(head, agent=ROBOTS_NAME) if head else NOTHING_STATED
        files = self._files.get(origin_of(url)) if self._files else None
        site = SitePreferences(robots=verdict.usage, tdm=files.tdm if files else (), rsl=files.rsl if files else ())
        headers = fetched.head.headers
        statements = capture_statements(
            url,
            fetched.head.status,
            headers,
            page=page,
            site=site,
            agent=ROBOTS_NAME,
            revision=self._policy.revision,
        )
        license_url = license_of(headers, page) if page.license or "link" in headers else ""
        if not statements and not license_url:
            return NOTHING_SAID
        is_image = (headers.get("Content-Type") or "").lower().startswith("image/")
        decision = decide(self._policy.purpose, statements, is_image=is_image)
        return UsageReading(tuple(note_fields(statements, license_url=license_url)), decision)

    def learn(self, url: str, fetched: FetchedResponse) -> None:
        """Remember the file of a site, if this is one; and that it is gone."""
        status, origin = fetched.head.status, origin_of(url)
        if path_of(url) == TDMREP and status in (404, 410):
            if origin in self._files:
                self._remember(origin, tdm=())
        elif status != 200:
            return
        elif path_of(url) == TDMREP:
            self._remember(origin, tdm=read_tdm_file(fetched.payload))
        elif b"rsl" in fetched.payload[:4096] and (found := read_rsl(fetched.payload)):
            self._remember(origin, rsl=found)

    def take_changes(self) -> dict[str, SiteFiles]:
        """Return the files of sites that changed since the last time."""
        taken, self._changes = self._changes, {}
        return taken

    def _remember(self, origin: str, **said: tuple[TdmLocation, ...] | tuple[RslContent, ...]) -> None:
        files = self._known(origin)
        for name, found in said.items():
            setattr(files, name, found)
        self._changes[origin] = files

    def _known(self, origin: str) -> SiteFiles:
        files = self._files.setdefault(origin, SiteFiles())
        self._files.move_to_end(origin)
        if len(self._files) > MOST_ORIGINS:
            self._files.popitem(last=False)
        return files

    def files_of(self, origin: str, verdict: RobotsVerdict) -> Iterator[str]:
        """Yield the addresses of what a site may say elsewhere than in its pages, if the crawl asks for that."""
        if self._policy.site_files:
            yield f"{origin}{TDMREP}"
            yield f"{origin}{LLMS}"
            yield from verdict.usage.licenses
