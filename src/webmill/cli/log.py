"""`webmill log`: shows what came of each URL of a crawl, from its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.text import escape_text, json_line
from webmill.crawl.control import ControlEvent, read_events
from webmill.crawl.seeds import parse_seed
from webmill.crawl.visit_log import LogFilter, VisitLogLine, VisitLogReader
from webmill.errors import BadInput
from webmill.settings.value_formats import parse_duration


class SinceType(click.ParamType[float]):
    """A time: ago (`2h`), a day or a moment (`2026-11-18`, `2026-11-18T09:30`)."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text, now = str(value), datetime.now(UTC)
        try:
            found = datetime.fromisoformat(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except ValueError:
            pass
        try:
            return now.timestamp() - parse_duration(text)
        except ValueError:
            self.fail(f"{text!r} is not a time; write 2h, 3d, 2026-11-18 or 2026-11-18T09:30", param, ctx)


@click.command(
    epilog="""\b
Examples:
  webmill log news/ --last 20
  webmill log news/ example.org --status 4xx
  webmill log news/ https://example.org/page          # every visit to it
  webmill log news/ --error connect_refused --since 2h
  webmill log news/ --follow --json | jq -r .url

\b
Columns: time, status (- without an answer), bytes, milliseconds, path from
the seed (L link, R redirect, E page resource, M sitemap, P robots.txt), media
type, URL, and what went wrong. --json has also the page that had the link
(via) and the digest."""
)
@click.argument("root", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.argument("what", default="", metavar="[URL|HOST]")
@click.option("--status", default="", metavar="CODE", help="Only with this status: 404, or 4xx for all of a class.")
@click.option(
    "--error", default="", metavar="KIND", help="Only this kind of error: dns_notfound, http_404 …; any: all of them."
)
@click.option("--since", type=SinceType(), help="Only since then: 2h ago, or 2026-11-18T09:30 (UTC).")
@click.option("--last", type=AT_LEAST_ONE, metavar="N", help="Only the last N.")
@click.option("--control", is_flag=True, help="Only what persons told the crawl: who paused, stopped, added …")
@click.option("--follow", is_flag=True, help="Go on with what is added, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print lines of JSON.")
def log(
    root: Path,
    *,
    what: str,
    status: str,
    error: str,
    since: float | None,
    last: int | None,
    control: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show what came of each URL of the crawl in DIR, oldest first, from the log that it writes."""
    if control:
        if what or status or error or follow:
            raise click.UsageError("--control goes with --since, --last and --json")
        print_events(root.resolve() / "frontier", since=since or 0.0, last=last, as_json=as_json)
        return
    reader = VisitLogReader(root.resolve() / "frontier")
    wanted = msgspec.structs.replace(subject_of(what), status=status.lower(), error=error, since=since or 0.0)
    found: Iterable[VisitLogLine] = reader.visits(wanted)
    try:
        print_visits(deque(found, maxlen=last) if last else found, as_json=as_json)
        if follow:
            print_visits(reader.follow(wanted), as_json=as_json)
    except KeyboardInterrupt:
        if not follow:
            raise
    if reader.unreadable:
        note(f"{reader.unreadable:,} lines of the log could not be read and were skipped")


def print_events(folder: Path, *, since: float, last: int | None, as_json: bool) -> None:
    for event in deque(read_events(folder, since=since), maxlen=last):
        click.echo(json_line(msgspec.to_builtins(event)) if as_json else format_event(event))


def format_event(event: ControlEvent) -> str:
    when = datetime.fromtimestamp(event.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return escape_text(f"{when}  {event.action:<10}  by {event.by}" + f"  {event.details}" * bool(event.details))


def subject_of(what: str) -> LogFilter:
    """Return a filter for a URL (with its scheme) or a host."""
    if not what:
        return LogFilter()
    try:
        url = parse_seed(what)
    except BadInput as error:
        raise click.UsageError(f"{what!r}: {error.message}") from error
    if "://" in what or "/" in what:
        return LogFilter(url=url)
    return LogFilter(host=url.partition("://")[2].partition("/")[0].partition(":")[0])


def print_visits(visits: Iterable[VisitLogLine], *, as_json: bool) -> None:
    for visit in visits:
        click.echo(json_line(msgspec.to_builtins(visit)) if as_json else format_visit(visit))


def format_visit(visit: VisitLogLine) -> str:
    when = datetime.fromtimestamp(visit.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    milliseconds = f"{1000 * visit.seconds:.0f}" if visit.seconds else "-"
    columns = f"{when}  {visit.status or '-':>3}  {visit.size or '-':>9}  {milliseconds:>6}  {visit.path or '-':<4}"
    rest = "  ".join(part for part in (visit.error, visit.note) if part)
    return escape_text(f"{columns}  {visit.mime or '-':<16}  {visit.url}" + f"  {rest}" * bool(rest))
