"""`webmill crawl`: crawls from seeds into the WARC files of a collection."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec

from webmill.archive.recovery import Repair
from webmill.cli.context import REJECTED, Context, finish, hint, note, pass_context, warn
from webmill.cli.crawl_progress import CrawlProgressView, describe_wait, format_most_frequent, format_until
from webmill.cli.options import GroupedCommand, sources_options
from webmill.cli.param_types import CookiesType
from webmill.cli.text import escape_text, format_count, format_duration, format_size, spell_out
from webmill.crawl.metrics import CrawlMetrics
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.run import CrawlWatcher
from webmill.crawl.scheduler.coordinator import Coordinator
from webmill.crawl.seeds import RejectedSeed, Seeds, describe_rejected, read_domains
from webmill.errors import Misconfigured
from webmill.pipeline.crawl_archive import SETTINGS, CrawlReport, crawl_archive
from webmill.settings import Settings, Sources

FAILED, INTERRUPTED = 1, 130
HELPS = {  # reasons for which a seed was not fetched, by their beginning: the flag that changes it
    "blocked_": "--allow-private allows it ([crawl] allow_private = true in webmill.toml)",
    "robots_unreachable": "its robots.txt could not be fetched; run the crawl again later",
    "robots": "its robots.txt forbids it; --no-robots ([crawl] robots = false) is for your own site",
    "redirect_out_of_scope": "give that address as a seed; or --scope any ([crawl] scope) follows it",
    "redirect_loop": "it may want cookies: leave --cookies off out, or give it the cookies.txt of a browser",
    "excluded": "--exclude, --include or --exclude-domains leaves it out",
    "forgotten": "it was taken down; `webmill forget --show` says when and why, --undo takes that back",
    "tls": "--tls archive ([crawl] tls) fetches it nevertheless",
    "http2_error": "its server fails at HTTP/2: --http2 off ([crawl] http2) never speaks it",
    "dns": "check the name",
    "proxy_failed": "check --proxy ([crawl] proxy), `webmill log DIR --error proxy_failed` says more",
    "source_address": "check --source-address ([crawl] source_address): this machine has it no more",
}
CONTROL_WORDS = {"pause", "resume", "stop", "reload", "status", "add", "exclude", "include", "-h", "--help"}
MAX_EXTENSIONS = 6  # in the report
ENDS = {
    "finished": "crawl finished",
    "waiting": "every remaining host must wait longer than --max-wait",
    "pages": "--max-pages reached",
    "seconds": "--max-time reached",
    "bytes": "--max-bytes reached",
    "stopped": "stopped",
}


class DomainFile(click.Path):
    """A file of domains. A bad line is an error, not a reject: a typo must not let a domain be crawled."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(  # type: ignore[override]  # domains, not the path of the file
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        return read_excluded_domains(Path(str(super().convert(value, param, ctx))))


def read_excluded_domains(path: Path) -> tuple[str, ...]:
    """Return the domains of a file; raise `Misconfigured` for a line that is not a domain."""
    domains = []
    for domain in read_domains(path):
        if isinstance(domain, RejectedSeed):
            raise Misconfigured(
                f"{path}:{domain.line}: {domain.text!r} [{domain.reason}]: write domains such as example.com"
            )
        domains.append(domain)
    return tuple(domains)


class CrawlCommand(GroupedCommand):
    """`webmill crawl DIR …`, and `webmill crawl control DIR ACTION`, which is `webmill control`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["control"] and (len(args) == 1 or CONTROL_WORDS.intersection(args[1:])):
            from webmill.cli.control import control

            return control.make_context(f"{info_name} control", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(
    cls=CrawlCommand,
    epilog="""\b
Examples:
  webmill crawl news/ https://example.com/ --contact me@example.org
  webmill crawl news/ --seeds sites.txt --scope domain --max-pages 10000
  webmill crawl news/                # continue, with the same flags
  webmill crawl news/ --refresh      # revisit pages until stopped
  webmill crawl news/ --frontier redis://10.0.0.1/0   # join a shared crawl
  webmill control news/ pause  # from another terminal; --help lists more

Stop it with Ctrl-C, and run it again to continue. Then: webmill index news/

Exit code 3: done, but some seeds are not URLs, no seed gave a page, or files
could not be uploaded; messages name them. 1: the disk is full.""",
)
@click.argument("collection", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--seeds",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File of seeds: URLs or domains, one per line; repeatable.",
)
@sources_options(*SETTINGS, place="collection", types={"exclude_domains": DomainFile(), "cookies": CookiesType()})
@click.option("--explain", metavar="URL", help="Crawl nothing; say what decides of this URL.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def crawl(
    context: Context,
    /,
    *,
    collection: Path,
    urls: tuple[str, ...],
    seeds: tuple[Path, ...],
    sources: Sources,
    explain: str | None,
    as_json: bool,
) -> None:
    """Crawl web sites, starting from seed URLs, into WARC files. Obeys robots.txt.

    DIR is the collection; it is created if needed. If the crawl is killed, run it again: it continues, and no page
    that was counted is lost.
    """
    if str(collection).startswith(("http:/", "https:/")):
        raise click.UsageError("DIR comes first: webmill crawl DIR URL")
    if explain:
        from webmill.cli.frontier.why import print_explanation

        print_explanation(context, collection, explain, as_json=as_json)
        return
    with watch_crawl(context, sources.settings()) as watcher:
        report = crawl_archive(collection.resolve(), Seeds(urls, files=seeds), sources=sources, watcher=watcher)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        print_crawl_report(report)
    exit_after_crawl(report)


def exit_after_crawl(report: CrawlReport) -> None:
    """Exit as the crawl ended: 130 when it was stopped, 1 when nothing could be written, 3 when seeds gave nothing."""
    where = describe_rejected(report.rejected)
    if report.total.write_error:
        warn(f"failed: nothing can be written: {report.total.write_error}")
        raise click.exceptions.Exit(FAILED)
    warn_of_uploads(report)
    if report.end == "stopped":
        if report.rejected:
            warn(f"{len(report.rejected):,} rejected: {where}")
        raise click.exceptions.Exit(INTERRUPTED)
    warn_of_failed_seeds(report)
    finish(rejected=report.problems, where=where or "no seed gave a page")
    if report.not_uploaded.files:
        raise click.exceptions.Exit(REJECTED)


def warn_of_uploads(report: CrawlReport) -> None:
    """Print what could not be uploaded, and that it is not lost."""
    left = report.not_uploaded
    if left.files:
        files = f"{format_count(left.files, 'WARC file', 'were')} not uploaded to {left.place}"
        again = f"webmill crawl {shlex.quote(report.collection)}"
        kept = f"kept here ({format_size(left.bytes)}), and the next run goes on with it: {again}"
        warn(escape_text(f"{files}: {left.why}. All of it is {kept}"))


def warn_of_failed_seeds(report: CrawlReport) -> None:
    """Print why a crawl has no page: each seed with its reason, and the flag that helps."""
    for seed in report.failed_seeds:
        reason, _, message = seed.reason.partition(": ")
        cause = seed.reason.removeprefix("robots_unreachable: ")  # what kept robots.txt from being fetched
        helps = next((flag for begin, flag in HELPS.items() if cause.startswith(begin)), "")
        said = spell_out(reason) + (f": {message}" if message else "")
        warn(escape_text(f"{seed.url}: {said}{f' ({helps})' if helps else ''}"))


@contextmanager
def watch_crawl(context: Context, settings: Settings) -> Iterator[CrawlWatcher]:
    """Show the progress of a crawl on stderr and to Prometheus; Ctrl-C stops the crawl."""
    metrics, port = CrawlMetrics(), settings.metrics.port
    serving = metrics.metrics.serve(port=port, host=settings.metrics.host) if port is not None else nullcontext()
    view = CrawlProgressView(quiet=context.quiet, stream=sys.stderr, limit=settings.crawl.max_pages)
    signals: list[int] = []
    with serving, view, stop_crawl_on_signals(signals) as started:

        def show(seen: CrawlProgress) -> None:
            view.show(seen)
            metrics.show(seen)

        verbosity = -1 if context.quiet else context.verbosity
        stopped = partial(bool, signals)
        yield CrawlWatcher(show=show, started=started, is_stopped=stopped, notice=note, verbosity=verbosity)


@contextmanager
def stop_crawl_on_signals(signals: list[int]) -> Iterator[Callable[[Coordinator], None]]:
    """Stop the crawl on the first Ctrl-C, abandon it on the second; acknowledged work is kept either way.

    Yields a function to call with the coordinator when it has started. `signals` gets those that came.
    """
    coordinators: list[Coordinator] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a signal handler
        signals.append(number)
        for coordinator in coordinators:
            if len(signals) > 1:
                coordinator.kill()
            else:
                coordinator.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def start(coordinator: Coordinator) -> None:
        coordinators.append(coordinator)
        if signals:  # Ctrl-C came before the start
            coordinator.stop()

    try:
        yield start
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_crawl_report(report: CrawlReport) -> None:
    total, root = report.total, shlex.quote(report.collection)
    waiting = total.waiting + total.in_hand
    pages = format_count(total.pages, "page")
    if total.nodes:
        pages += f" of {total.nodes.pages:,} on all nodes"
    note(f"{ENDS[report.end]}: {pages} in {report.collection} after {format_duration(report.seconds)}")
    resources = f" ({format_count(total.page_resources, 'page resource')})" if total.page_resources else ""
    parts = [
        f"{format_size(total.bytes)} in {format_count(total.fetched, 'response')}{resources}",
        f"{format_count(waiting, 'URL')} waiting",
    ]
    note(", ".join(parts) + (f"; errors: {format_most_frequent(total.errors)}" if total.errors else ""))
    if total.refused:
        note(f"skipped: {format_most_frequent(total.refused)}")
    if "blocked_address" in total.errors:
        hint("private addresses are crawled only with --allow-private")
    if total.endings:
        note(f"skipped by file type: {format_link_counts(total.endings)}; --all-types follows them")
    for repair in report.repairs:
        note(f"after a crash: {describe_repair(repair)}")
    if report.end == "waiting":
        note(f"{format_count(waiting, 'URL', 'wait')} {describe_wait(total)}; run the crawl again later")
    elif report.end == "pages" and total.resource_due is not None:
        note(f"some page resources wait {format_until(total.resource_due)}; run the crawl again later")
    if waiting and report.end != "pages":
        hint(f"to continue: webmill crawl {root}")
    if total.pages:
        hint(f"next: webmill index {root}")


def format_link_counts(endings: Mapping[str, int]) -> str:
    """Return the most frequent file types: `214 links to .pdf, 30 to .jpg`."""
    most = sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{count:,} to .{ending}" for ending, count in most[:MAX_EXTENSIONS]]
    named[0] = named[0].replace(" to", " links to" if most[0][1] > 1 else " link to", 1)
    rest = sum(count for _, count in most[MAX_EXTENSIONS:])
    return ", ".join([*named, *[f"{rest:,} to others"] * bool(rest)])


def describe_repair(repair: Repair) -> str:
    kept = f"{repair.file} has {format_count(repair.captures, 'complete capture')}"
    flaws = f", {format_count(len(repair.flaws), 'damage')} before them" if repair.flaws else ""
    cut = f"; {format_count(repair.cut, 'byte')} of an incomplete record moved to {repair.saved}" if repair.cut else ""
    return kept + flaws + cut
