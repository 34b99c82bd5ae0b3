"""Which rule decides of the use of a URL: what its site said when it was archived, and what its robots.txt says now."""

from __future__ import annotations

from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import LastVisit, RobotsEntry
from webmill.crawl.options import ROBOTS_NAME
from webmill.crawl.politeness.robots import decide as decide_robots
from webmill.crawl.politeness.robots import robots_path
from webmill.errors import WebmillError
from webmill.formats.preferences.decision import decide, disallowed_by_robots
from webmill.formats.preferences.notes import read_notes
from webmill.formats.preferences.statements import Statement
from webmill.formats.warc.fields import parse_warc_fields
from webmill.formats.warc.reader import read_records
from webmill.infra.storage.local import LocalStorage
from webmill.model import Record
from webmill.settings import CrawlSettings

MOST_NOTES = 1 << 16  # bytes of a metadata record


class UsageExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection may do with a URL, which statement decided, and all that were found."""

    purpose: str
    outcome: str
    decided: str
    statements: tuple[Statement, ...] = ()


def explain_usage(
    root: Path, url: str, last: LastVisit | None, robots: RobotsEntry | None, settings: CrawlSettings, *, now: float
) -> UsageExplanation:
    """Return the decision for a URL that a crawl knows, or that it would ask for."""
    found = [*robots_statements(url, robots, settings, now=now), *archived_statements(root, last)]
    statements = tuple(dict.fromkeys(found))
    decision = decide(settings.purpose, statements)
    outcome, decided = decision.outcome, decision.describe().partition(": ")[2]
    if last and last.error.startswith(("usage:", "payment:")) and outcome != "deny":  # by an answer that was not kept
        outcome, decided = "deny", last.error
    return UsageExplanation(purpose=settings.purpose, outcome=outcome, decided=decided, statements=statements)


def robots_statements(url: str, entry: RobotsEntry | None, settings: CrawlSettings, *, now: float) -> list[Statement]:
    """Return what the robots.txt that is known says of a URL."""
    if entry is None or not settings.robots:
        return []
    verdict, path = decide_robots(entry, now=now), robots_path(url)
    forbids = [] if verdict.allows(path) else [disallowed_by_robots(f"{verdict.state}: {ROBOTS_NAME} {path}")]
    return [*forbids, *verdict.usage.statements(path, revision=settings.usage_revision)]


def archived_statements(root: Path, last: LastVisit | None) -> list[Statement]:
    """Return what was noted beside the last capture; nothing if it cannot be read."""
    if last is None or not last.filename:
        return []
    try:
        notes = read_metadata(root, last)
    except WebmillError:
        return []
    return read_notes(parse_warc_fields(notes.content).pairs) if notes else []


def read_metadata(root: Path, last: LastVisit) -> Record | None:
    """Return the metadata record of a capture, which follows it in its file."""
    storage, start = LocalStorage(root), last.offset + last.length
    length = min(MOST_NOTES, storage.stat(last.filename).size - start)
    with storage.open(last.filename, start=start, length=length) as source:
        for record in read_records(source):
            if isinstance(record, Record):
                return record if record.type == "metadata" and record.target_uri == last.url else None
    return None
