"""`webmill crawl`: seeds to a collection of WARC files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.counts import ANY_COUNT, AT_LEAST_ONE
from webmill.cli.crawl_view import View, age, amount, kinds
from webmill.cli.durations import DURATION, SIZE
from webmill.cli.index import counted, crawl_name
from webmill.collection import Collection
from webmill.crawl.seeds import Rejected, read_domains, read_seeds
from webmill.errors import Misconfigured
from webmill.flows.crawl.crew import Crew
from webmill.flows.crawl.metrics import CrawlMetrics
from webmill.flows.crawl.options import Limits, Manners, Options, Reach, Refresh, Rules
from webmill.flows.crawl.snapshot import Snapshot
from webmill.flows.crawl.start import Report
from webmill.flows.crawl.start import crawl as run_crawl
from webmill.wiring import crawl_backends, user_agent

ENDS = {
    "finished": "nothing is left to fetch",
    "pages": "--max-pages is reached",
    "seconds": "--max-time is over",
    "bytes": "--max-bytes is reached",
    "stopped": "stopped",
}


@click.command(
    epilog="""\b
Examples:
  webmill crawl news/ https://example.com/ --contact me@example.org
  webmill crawl news/ --seeds sites.txt --scope domain --max-pages 10000 --contact me@example.org
  webmill crawl news/ --contact me@example.org           # go on where it stopped
  webmill crawl news/ --refresh --contact me@example.org # visit pages again, for ever

Stop it with Ctrl-C, or kill it: run the same command again to go on. Then: webmill index news/"""
)
@click.argument("collection", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--seeds",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File of URLs or domains, one per line.",
)
@click.option("--contact", help="Your e-mail or page: every server is told whom to ask.")
@click.option("--name", help="Name of the crawl  [default: that of DIR]")
@click.option(
    "--scope",
    type=click.Choice(["host", "domain", "path", "any"]),
    default="host",
    show_default=True,
    help="How far from the seeds links are followed.",
)
@click.option("--include", multiple=True, metavar="REGEX", help="Only URLs in which one of these is found (RE2).")
@click.option("--exclude", multiple=True, metavar="REGEX", help="No URLs in which one of these is found (RE2).")
@click.option(
    "--exclude-domains",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of domains never to ask.",
)
@click.option("--depth", type=ANY_COUNT, help="Links from a seed  [default: no limit]")
@click.option("--max-pages", type=AT_LEAST_ONE, help="Stop after so many pages, in the whole crawl.")
@click.option("--max-pages-per-domain", type=AT_LEAST_ONE, help="No more of one domain.")
@click.option("--max-time", type=DURATION, help="Stop this run after 90s, 20m, 8h, 7d.")
@click.option("--max-bytes", type=SIZE, help="Stop this run after 500M, 20G.")
@click.option("--max-body", type=SIZE, default="64M", show_default=True, help="Cut longer answers.")
@click.option("--delay", type=DURATION, default="70s", show_default=True, help="Between two requests to a domain.")
@click.option(
    "--address-delay", type=DURATION, default="1s", show_default=True, help="Between two requests to an address."
)
@click.option("--retry-wait", type=DURATION, default="60s", show_default=True, help="Before a second attempt.")
@click.option("--processes", type=AT_LEAST_ONE, help="Processes  [default: one per core]")
@click.option(
    "--concurrency", type=AT_LEAST_ONE, default=500, show_default=True, help="Domains asked at once, per process."
)
@click.option("--refresh", is_flag=True, help="Visit pages again, more often those that change.")
@click.option("--refresh-every", type=DURATION, default="1d", show_default=True, help="Until the first such visit.")
@click.option("--robots/--no-robots", default=True, help="Obey robots.txt. Only switch it off on your own site.")
@click.option("--nofollow/--no-nofollow", default=True, help="Obey nofollow in pages and headers.")
@click.option("--sitemaps/--no-sitemaps", default=True, help="Read the sitemaps that robots.txt names.")
@click.option("--traps/--no-traps", default=True, help="Guard against endless URLs (calendars, loops).")
@click.option("--all-types", is_flag=True, help="Follow links to images, videos and archives, too.")
@click.option("--languages/--no-languages", default=True, help="Detect languages for the metadata records.")
@click.option(
    "--tls",
    type=click.Choice(["verify", "archive"]),
    default="verify",
    show_default=True,
    help="archive: fetch in spite of a bad certificate, and say so.",
)
@click.option("--allow-private", is_flag=True, help="Connect to private and loopback addresses and any port.")
@click.option("--resolve", multiple=True, metavar="HOST=ADDRESS[:PORT]", help="Instead of DNS.")
@click.option("--file-size", type=SIZE, default="1G", show_default=True, help="Begin a new WARC file after so much.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics there (the usual: 8001).")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@pass_context
def crawl(
    context: Context,
    /,
    *,
    collection: Path,
    urls: tuple[str, ...],
    seeds: tuple[Path, ...],
    contact: str | None,
    name: str | None,
    scope: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    exclude_domains: Path | None,
    depth: int | None,
    max_pages: int | None,
    max_pages_per_domain: int | None,
    max_time: float | None,
    max_bytes: int | None,
    max_body: int,
    delay: float,
    address_delay: float,
    retry_wait: float,
    processes: int | None,
    concurrency: int,
    refresh: bool,
    refresh_every: float,
    robots: bool,
    nofollow: bool,
    sitemaps: bool,
    traps: bool,
    all_types: bool,
    languages: bool,
    tls: str,
    allow_private: bool,
    resolve: tuple[str, ...],
    file_size: int,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Crawl from seeds into WARC files, politely, with robots.txt obeyed.

    DIR is a collection; it is made when it is not there. A page counts when it is on the disk: killed at any moment and
    run again, the crawl goes on.
    """
    root = collection.resolve()
    settings = context.settings(root if root.is_dir() else None)
    contact = contact or settings.http.contact
    if not contact:
        raise Misconfigured(
            "servers must be told whom to ask: give --contact me@example.org, or set [http] contact in webmill.toml"
        )
    options = Options(
        collection=Collection(root, name or crawl_name(root)),
        segment=datetime.now(UTC).strftime("%Y%m%d%H%M%S"),
        backends=crawl_backends(),
        manners=Manners(
            user_agent=user_agent(contact),
            delay=delay,
            address_delay=address_delay,
            obey_robots=robots,
            obey_nofollow=nofollow,
        ),
        limits=Limits(
            pages=max_pages,
            pages_per_domain=max_pages_per_domain,
            seconds=max_time,
            bytes=max_bytes,
            body=max_body,
            retry_wait=retry_wait,
        ),
        reach=Reach(allow_private=allow_private, resolve=dict(map(fixed_address, resolve)), tls=tls),  # type: ignore[arg-type]
        rules=Rules(
            scope=scope,  # type: ignore[arg-type]
            include=include,
            exclude=exclude,
            depth=depth,
            traps=traps,
            extensions=not all_types,
            sitemaps=sitemaps,
        ),
        refresh=Refresh(on=refresh, first=refresh_every),
        operator=contact,
        excluded=excluded(exclude_domains) if exclude_domains else (),
        concurrency=concurrency,
        file_bytes=file_size,
        languages=languages,
    )
    given = Seeds(urls, seeds)
    report = watched(options, given, processes, context, metrics_port)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        tell(options, report)
    first = [f"{one.source} line {one.line}: {one.text!r} [{one.reason}]" for one in given.rejected[:3]]
    finish(rejected=len(given.rejected), where="; ".join(first))


class Seeds:
    """From the command line and from files; what is none is kept, with where it stood."""

    def __init__(self, urls: tuple[str, ...], files: tuple[Path, ...]) -> None:
        self._urls, self._files = urls, files
        self.rejected: list[Rejected] = []

    def __iter__(self) -> Iterator[str]:
        for seed in read_seeds(self._urls, files=self._files):
            if isinstance(seed, Rejected):
                self.rejected.append(seed)
            else:
                yield seed


def excluded(path: Path) -> tuple[str, ...]:
    """A domain must not be asked because of a slip of the pen: a bad line is an error here, not a reject."""
    domains = []
    for domain in read_domains(path):
        if isinstance(domain, Rejected):
            raise Misconfigured(f"{path}:{domain.line}: {domain.text!r} [{domain.reason}]: give registered domains")
        domains.append(domain)
    return tuple(domains)


def fixed_address(text: str) -> tuple[str, tuple[str, int]]:
    host, equals, address = text.partition("=")
    ip, colon, port = address.rpartition(":")
    if not (equals and host and ip and colon and port.isdigit()):
        raise click.BadParameter(f"{text!r} is not HOST=ADDRESS:PORT", param_hint="--resolve")
    return host, (ip.strip("[]"), int(port))


def watched(
    options: Options, seeds: Seeds, processes: int | None, context: Context, metrics_port: int | None
) -> Report:
    metrics = CrawlMetrics()
    serving = metrics.metrics.serve(port=metrics_port) if metrics_port is not None else nullcontext()
    with serving, View(quiet=context.quiet, stream=sys.stderr, limit=options.limits.pages) as view:

        def show(seen: Snapshot) -> None:
            view.show(seen)
            metrics.show(seen)

        if processes is None and not (options.folder / "crawl.json").exists():
            processes = cores()
        return run_crawl(options, seeds, processes=processes, watch=show, hired=stop_on_signals)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stop_on_signals(crew: Crew) -> None:
    """The first Ctrl-C ends in good order, the second at once: nothing that was acknowledged is lost either way."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a signal handler
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        crew.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def tell(options: Options, report: Report) -> None:
    total = report.total
    note(f"{ENDS[report.end]} after {age(report.seconds)}: {counted(total.pages, 'page')} in {options.collection.root}")
    parts = [f"{amount(total.bytes)} in {total.fetched:,} answers", f"{total.waiting:,} URLs wait"]
    note(", ".join(parts) + (f"; errors: {kinds(total.errors)}" if total.errors else ""))
    for repair in report.repairs:
        note(f"repaired after a crash: {repair}")
    note(f"next: webmill index {options.collection.root}")
