"""What went wrong in a crawl: URLs without an answer, with one of an error, refused by robots.txt, or asked again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from webmill.crawl.frontier.sqlite_state import decode_visit
from webmill.crawl.status_file import CrawlStatus
from webmill.crawl.yields.yield_store import FILE_NAME as YIELDS_FILE
from webmill.crawl.yields.yield_store import PARKED, parked_patterns
from webmill.errors import NotFound
from webmill.infra.sqlite import Run, open_read_only
from webmill.pipeline.problems.types import (
    MAX_EXAMPLES,
    ProblemExample,
    ProblemGroup,
    ProblemTally,
    Severity,
    clip_text,
)

MAX_VISITS = 100_000  # the newest of a shard that are looked at
AT_ONCE = 1000
SHARDS = 256
# Values in these rows are JSON, in which a quote within a text is escaped: so these are keys.
FAILED_VISITS = """
    SELECT id, time, body FROM visit
    WHERE id < ? AND id > ? AND (instr(body, '"error":') OR body GLOB '*"status":[45][0-9][0-9][,}]*')
    ORDER BY id DESC LIMIT ?
"""
RETRIES = "SELECT url, attempts, not_before FROM retry WHERE attempts > 1 LIMIT ?"
_STATUS = re.compile("status_([0-9]{3})")

# Of each cause: its title, and what to do about it.
CAUSES: dict[str, tuple[str, str]] = {
    "robots": ("robots.txt does not allow these URLs", "Leave them, or ask the site's owner for permission."),
    "robots_unreachable": (
        "robots.txt could not be fetched",
        "The site was down or refuses crawlers; try again later.",
    ),
    "excluded": ("URLs of this crawl's own exclusions", "Remove the exclusion if you want them."),
    "max_pages_per_domain": (
        "The page limit of the domain was reached",
        "Raise --max-pages-per-domain, or [crawl] max_pages_per_domain in webmill.toml.",
    ),
    "redirect_out_of_scope": (
        "URLs that redirect to another site, out of the scope of the crawl",
        "Nothing, or give the address that they lead to as a seed; --scope any ([crawl] scope) follows all.",
    ),
    "redirect_loop": (
        "The page redirects to itself, whatever cookies it is sent",
        "Look at it in a browser; with --cookies FILE the crawl has the cookies that the browser got.",
    ),
    "dns_notfound": ("The host name does not exist", "Check the spelling of the address."),
    "dns_failed": ("The host name could not be resolved", "Check this machine's name server, then try again."),
    "dns_timeout": ("The name server did not answer", "Check this machine's name server, then try again."),
    "connect_refused": ("The server refused the connection", "The site is down; try again later."),
    "connect_timeout": ("The server did not accept the connection in time", "The site is down; try again later."),
    "connect_failed": ("The connection failed", "Check the network of this machine, then try again."),
    "http2_error": (
        "The server failed at HTTP/2, and HTTP/1.1 did not help",
        "Try again later; --http2 off ([crawl] http2) never speaks it.",
    ),
    "too_many_frames": (
        "The server answered with a flood of HTTP/2 frames",
        "Nothing, or try --http2 off ([crawl] http2).",
    ),
    "forgotten": ("URLs that were taken down by `webmill forget`", "Nothing: they are never asked for."),
    "timeout": ("The server did not answer in time", "The site is slow or down; try again later."),
    "retry": ("These URLs failed and wait for another try", "Nothing to do: the crawl asks again by itself."),
}
FAMILIES = {  # causes by how they begin
    "blocked_": (
        "The address is private or reserved, and was not requested",
        "If it is your own server, allow it: --allow-private, or allow_private = true below [crawl] in webmill.toml.",
    ),
    "tls": (
        "The secure connection failed",
        "With --tls archive ([crawl] tls) the pages are fetched in spite of a bad certificate.",
    ),
    "truncated": ("The answer broke off", "What came is archived, and was read as far as it goes; try again later."),
}
URLS_OF = "crawl:"  # begins the name of a retry: the URLs of a kind of error
LEFT_ALONE = frozenset({"robots", "excluded", "forgotten", "redirect_out_of_scope", "retry", "write_error"})
WARNINGS = frozenset({"robots", "excluded", "forgotten", "max_pages_per_domain", "redirect_out_of_scope", "retry"})


def crawl_problems(root: Path, crawls: list[CrawlStatus], *, folder: str) -> Iterator[ProblemGroup]:
    """Yield the problems of the crawl in `root`, by what its frontier says of each URL. A frontier in Redis is not
    asked: then the counts of the last run are all that is known."""
    tally, is_cut = ProblemTally(), False
    shards = sorted((root / "frontier").glob("shard-*/state.sqlite"))[:SHARDS]
    for shard in shards:
        is_cut |= count_visits(shard, tally)
    if not shards:
        count_statuses(crawls, tally)
    for crawl in crawls:
        for trouble in filter(None, (crawl.total.write_error, crawl.total.command_error)):
            tally.add("write_error", crawl.name, message=trouble, time=crawl.time)
    yield from parked_problems(root, folder=folder)
    for cause, found in tally.causes():
        title, advice = describe_cause(cause)
        subject = found.examples[0].subject if found.examples else ""
        yield ProblemGroup(
            stage="crawl",
            cause=cause,
            severity=severity_of(cause),
            title=title,
            count=found.count,
            is_estimate=is_cut,
            first=found.first,
            last=found.last,
            examples=found.examples,
            advice=advice,
            command=retry_command(cause, folder, subject),
            retry=URLS_OF + kind if (kind := kind_to_retry(cause, subject)) else "",
        )


def parked_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield one group for all patterns of URLs that are parked, since they gave nothing new."""
    files = sorted((root / "frontier").glob(f"shard-*/{YIELDS_FILE}"))[:SHARDS]
    found = sorted((each for file in files for each in parked_patterns(file)), key=lambda each: -each[1].parked)
    if not found:
        return
    yield ProblemGroup(
        stage="crawl",
        cause=PARKED,
        severity="warning",
        title=f"URLs of {len(found):,} pattern{'s' * (len(found) != 1)} are not fetched: their pages gave nothing new",
        count=sum(each.parked for _, each in found),
        examples=[
            ProblemExample(
                clip_text(pattern),
                f"{each.parked:,} URLs parked; of {each.fetched:,} fetched, {each.new:,} had new text",
            )
            for pattern, each in found[:MAX_EXAMPLES]
        ],
        advice="They are kept. If pages are missing, release their pattern; --trap-budget sets when one is parked.",
        command=f"webmill frontier release {folder} {shlex.quote(clip_text(found[0][0]))}",
    )


def count_visits(file: Path, tally: ProblemTally) -> bool:
    """Count the failures of a shard; return whether there are older visits that were not looked at."""
    try:
        with open_read_only(file) as read:
            newest = int(read("SELECT coalesce(max(id), 0) FROM visit")[0][0])
            for time, body in failed_visits(read, newest=newest):
                visit = decode_visit(body)
                cause, _, message = visit.error.partition(": ")
                if cause == PARKED:  # counted by pattern
                    continue
                tally.add(cause or f"status_{visit.status}", visit.url, message=message, time=time)
            count_retries(read, tally)
            return bool(read("SELECT 1 FROM visit WHERE id <= ? LIMIT 1", (newest - MAX_VISITS,)))
    except NotFound:  # the shard has not begun
        return False


def failed_visits(read: Run, *, newest: int) -> Iterator[tuple[float, str]]:
    """Yield the time and body of visits that failed, the newest first."""
    last, stop = newest + 1, newest - MAX_VISITS
    while rows := read(FAILED_VISITS, (last, stop, AT_ONCE)):
        for _, time, body in rows:
            yield time, body
        last = rows[-1][0]


def count_retries(read: Run, tally: ProblemTally) -> None:
    for url, attempts, _ in read(RETRIES, (AT_ONCE,)):
        tally.add("retry", url, message=f"attempt {attempts} is next")


def count_statuses(crawls: list[CrawlStatus], tally: ProblemTally) -> None:
    for crawl in crawls:
        for cause, count in crawl.total.errors.items():
            tally.add(cause, count=count, time=crawl.time)
        for name in ("4xx", "5xx"):
            if count := crawl.total.statuses.get(name, 0):
                tally.add(f"status_{name}", count=count, time=crawl.time)
        if count := crawl.total.refused.get("robots", 0):
            tally.add("robots", count=count, time=crawl.time)


def describe_cause(cause: str) -> tuple[str, str]:
    """Return a title and what to do."""
    if found := _STATUS.fullmatch(cause):
        return describe_status(int(found[1]))
    if cause.startswith("status_"):
        return f"The server answered with an error ({cause[7:]})", "Look at the pages; try again later if it was down."
    known = CAUSES.get(cause) or next((known for start, known in FAMILIES.items() if cause.startswith(start)), None)
    return known or (f"The request failed: {cause.replace('_', ' ')}", "Try again later; the cause is in the examples.")


def describe_status(status: int) -> tuple[str, str]:
    if status in (404, 410):
        return f"Pages that do not exist ({status})", "Links of the site are broken, or the pages were removed."
    if status in (401, 403, 407):
        return f"The server does not allow these pages ({status})", "They need a login, or the site refuses crawlers."
    if status == 429:
        return "The server says that there were too many requests (429)", "Raise the delay of the crawl."
    who = "The request was refused" if status < 500 else "The server failed"
    return f"{who} ({status})", "Try again later." if status >= 500 else "Look at the pages in a browser."


def severity_of(cause: str) -> Severity:
    is_warning = cause in WARNINGS or cause.startswith(("status_4", "truncated"))
    return "warning" if is_warning else "error"


def retry_command(cause: str, folder: str, subject: str) -> str:
    """Return the command that asks for such URLs again, or shows more."""
    if cause in ("retry", "write_error"):
        return f"webmill status {folder}"
    kind = kind_to_retry(cause, subject)
    return f"webmill frontier retry {folder} --error {shlex.quote(kind)}" if kind else ""


def kind_to_retry(cause: str, subject: str) -> str:
    """Return the kind of error by which such URLs are asked for again; empty where that would change nothing."""
    if cause in LEFT_ALONE or not subject.startswith("http"):
        return ""
    return cause.replace("status_", "http_")
