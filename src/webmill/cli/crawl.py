"""`webmill crawl`: seeds to a collection of WARC files."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import click
import msgspec

from webmill.archive.recovery import Repair
from webmill.cli.collections import crawl_name
from webmill.cli.context import Context, finish, hint, note, pass_context, warn
from webmill.cli.counts import AT_LEAST_ONE
from webmill.cli.crawl_flags import FILE, Flags, agreed, combined, keep, read, with_flags
from webmill.cli.crawl_view import View, age, amount, awaited, kinds, until
from webmill.cli.words import counted
from webmill.collection import Collection
from webmill.crawl.scope import must_be_patterns
from webmill.crawl.seeds import ARGUMENTS, Rejected, read_seeds
from webmill.errors import Misconfigured
from webmill.infra.user_agent import user_agent
from webmill.pipeline.crawl.backends import crawl_backends, open_meeting
from webmill.pipeline.crawl.crew import Crew
from webmill.pipeline.crawl.joining import Terms, crawl_as_node, gone_from
from webmill.pipeline.crawl.metrics import CrawlMetrics
from webmill.pipeline.crawl.options import Backends, Options
from webmill.pipeline.crawl.snapshot import Snapshot
from webmill.pipeline.crawl.start import NoSeeds, Report
from webmill.pipeline.crawl.start import crawl as run_crawl

INTERRUPTED = 130
ENDINGS = 6  # that are named in the end
ENDS = {
    "finished": "nothing is left to fetch",
    "waiting": "nothing may be asked for longer than --max-wait",
    "pages": "--max-pages is reached",
    "seconds": "--max-time is over",
    "bytes": "--max-bytes is reached",
    "stopped": "stopped",
}
NO_SEED = {  # by the reasons of `crawl.seeds`
    "bad_host": "has no host that can be looked up",
    "bad_url": "is no URL",
    "credentials": "names a user or a password, which are never sent",
    "scheme": "is not of http or https",
    "url_too_long": "is too long for a URL",
}


@click.command(
    epilog="""\b
Examples:
  webmill crawl news/ https://example.com/ --contact me@example.org
  webmill crawl news/ --seeds sites.txt --scope domain --max-pages 10000
  webmill crawl news/                # go on, with the same flags
  webmill crawl news/ --refresh      # visit pages again, for ever
  webmill crawl news/ --frontier redis://10.0.0.1/0   # join a shared crawl

Stop it with Ctrl-C, or kill it: run it again to go on. Then: webmill index news/

Exit code 3: done, but some seeds are no URLs; they are named with their lines."""
)
@click.argument("collection", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--seeds",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File of URLs or domains, one per line.",
)
@with_flags
@click.option("--processes", type=AT_LEAST_ONE, help="Processes  [default: one per core]")
@click.option("--shards", type=AT_LEAST_ONE, help="With --frontier: parts, for life, each one process  [default: 8]")
@click.option(
    "--nodes", type=AT_LEAST_ONE, default=1, show_default=True, help="With --frontier: begin when so many are here."
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="N", help="Serve Prometheus metrics there (usual: 8001)."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@pass_context
@click.pass_context
def crawl(
    click_context: click.Context,
    context: Context,
    /,
    *,
    collection: Path,
    urls: tuple[str, ...],
    seeds: tuple[Path, ...],
    processes: int | None,
    shards: int | None,
    nodes: int,
    metrics_port: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Crawl from seeds into WARC files, politely, with robots.txt obeyed.

    DIR is a collection; it is made when it is not there. A page counts when it is on the disk: killed at any moment and
    run again, the crawl goes on.
    """
    if str(collection).startswith(("http:/", "https:/")):
        raise click.UsageError("DIR comes first: webmill crawl DIR URL")
    root = collection.resolve()
    given_seeds = Seeds(urls, seeds)
    view = Showing(context, metrics_port)
    redis = given["frontier"] or read(root / "frontier" / FILE).get("frontier")
    if redis and processes:
        raise click.UsageError("--processes is for one machine: with --frontier say --shards")
    if not redis and (shards or nodes > 1):
        raise click.UsageError("--shards and --nodes are for many machines: name a Redis with --frontier")
    try:
        if redis:
            report, options = on_nodes(click_context, view, root, redis, given_seeds, given, shards=shards, nodes=nodes)
        else:
            report, options = on_one_machine(click_context, view, root, given_seeds, given, processes=processes)
    except NoSeeds as error:
        why = given_seeds.first_rejected() or "there is none"
        raise NoSeeds(f"{error}: {why}") from None
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        tell(options, report)
    if report.end == "stopped":
        if given_seeds.rejected:
            warn(f"{len(given_seeds.rejected):,} rejected: {given_seeds.first_rejected()}")
        raise click.exceptions.Exit(INTERRUPTED)
    finish(rejected=len(given_seeds.rejected), where=given_seeds.first_rejected())


def on_one_machine(
    click_context: click.Context,
    showing: Showing,
    root: Path,
    seeds: Seeds,
    given: dict[str, Any],
    *,
    processes: int | None,
) -> tuple[Report, Options]:
    flags, kept = combined(click_context, given, root / "frontier")
    options = options_of(flags, showing.context, root, crawl_backends())
    if not (seeds.are_given or options.seeds.exists()):
        raise click.UsageError(f"there is no crawl in {root} yet: name a URL to begin with, or --seeds FILE")
    if processes is None and not (options.folder / "crawl.json").exists():
        processes = cores()
    with showing.shown(options, begin=partial(keep, kept, options.folder)) as (watch, hired):
        return run_crawl(options, seeds, processes=processes, watch=watch, hired=hired), options


def options_of(flags: Flags, context: Context, root: Path, backends: Backends) -> Options:
    settings = context.settings(root if root.is_dir() else None)
    contact = flags.contact or settings.http.contact
    if not contact:
        raise Misconfigured(
            "servers must be told whom to ask: give --contact me@example.org, or set [http] contact in webmill.toml"
        )
    rules = flags.rules()
    must_be_patterns(*rules.include, *rules.exclude)  # before the flags are kept
    return Options(
        collection=Collection(root, flags.name or crawl_name(root)),
        segment=datetime.now(UTC).strftime("%Y%m%d%H%M%S"),
        backends=backends,
        manners=flags.manners(user_agent(contact)),
        limits=flags.limits(),
        reach=flags.reach(),
        rules=rules,
        refresh=flags.refreshing(),
        operator=contact,
        excluded=flags.exclude_domains,
        concurrency=flags.concurrency,
        file_bytes=flags.file_size,
        languages=flags.languages,
        verbosity=-1 if context.quiet else context.verbosity,
        log_format=settings.log.format,
    )


def on_nodes(
    click_context: click.Context,
    showing: Showing,
    root: Path,
    redis: str,
    seeds: Seeds,
    given: dict[str, Any],
    *,
    shards: int | None,
    nodes: int,
) -> tuple[Report, Options]:
    folder = root / "frontier"
    name = given["name"] or read(folder / FILE).get("name") or crawl_name(root)
    with closing(open_meeting(redis, name=name)) as meeting:
        running = meeting.limits(is_gone=gone_from(folder))
        agreement = agreed(click_context, given, folder, stored=meeting.flags(), running=running)
        flags = agreement.flags
        promise = meeting.promise(strict=flags.strict)
        note(f"Redis at {meeting.server.place}, if it dies: {promise}")
        rebuild = flags.lost_files == "rebuild"
        backends = crawl_backends(redis, name=name, strict=flags.strict, rebuild=rebuild, backup=flags.backup)
        options = options_of(flags, showing.context, root, backends)
        if not seeds.are_given and not any(meeting.seeds()):
            raise click.UsageError(
                f"there is no crawl {name} in this Redis yet: name a URL to begin with, or --seeds FILE"
            )
        terms = Terms(
            flags=agreement.crawl,
            limits=agreement.run,
            shards=shards,
            begin_with=nodes,
            rebuilds=rebuild,
        )
        kept = {**agreement.node, "frontier": redis, "name": name}
        with showing.shown(options, begin=partial(keep, kept, folder)) as (watch, hired):
            return crawl_as_node(options, seeds, meeting=meeting, terms=terms, watch=watch, hired=hired), options


class Seeds:
    """From the command line and from files; what is none is kept, with where it stood."""

    def __init__(self, urls: tuple[str, ...], files: tuple[Path, ...]) -> None:
        self._urls, self._files = urls, files
        self.rejected: list[Rejected] = []

    @property
    def are_given(self) -> bool:
        return bool(self._urls or self._files)

    def __iter__(self) -> Iterator[str]:
        for seed in read_seeds(self._urls, files=self._files):
            if isinstance(seed, Rejected):
                self.rejected.append(seed)
            else:
                yield seed

    def first_rejected(self) -> str:
        return "; ".join(map(told, self.rejected[:3]))


def told(one: Rejected) -> str:
    where = "" if one.source == ARGUMENTS else f"{one.source} line {one.line}: "
    return f"{where}{one.text!r} {NO_SEED.get(one.reason, one.reason)}"


class Showing:
    """A crawl for a person, and for Prometheus."""

    def __init__(self, context: Context, metrics_port: int | None) -> None:
        self.context, self._port = context, metrics_port

    @contextmanager
    def shown(
        self, options: Options, *, begin: Callable[[], None]
    ) -> Iterator[tuple[Callable[[Snapshot], None], Callable[[Crew], None]]]:
        """What is to be called with each snapshot, and once with the crew; `begin`, when the crawl is ours."""
        metrics = CrawlMetrics()
        root = options.collection.root
        host = self.context.settings(root if root.is_dir() else None).metrics.host
        serving = metrics.metrics.serve(port=self._port, host=host) if self._port is not None else nullcontext()
        view = View(quiet=self.context.quiet, stream=sys.stderr, limit=options.limits.pages)
        with serving, view, stopping_on_signals() as hired:

            def show(seen: Snapshot) -> None:
                view.show(seen)
                metrics.show(seen)

            def start(crew: Crew) -> None:
                begin()
                hired(crew)

            yield show, start


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def stopping_on_signals() -> Iterator[Callable[[Crew], None]]:
    """The first Ctrl-C ends in good order, the second at once: nothing that was acknowledged is lost either way.

    Gives what is to be called with the crew.
    """
    crews: list[Crew] = []

    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a signal handler
        asked.append(number)
        for crew in crews:
            if len(asked) > 1:
                crew.abandon()
            else:
                crew.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def hired(crew: Crew) -> None:
        crews.append(crew)
        if asked:  # before there was one
            crew.stop()

    try:
        yield hired
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(options: Options, report: Report) -> None:
    total, root = report.total, shlex.quote(str(options.collection.root))
    waiting = total.waiting + total.in_hand
    pages = counted(total.pages, "page")
    if total.nodes:
        pages += f" of {total.nodes.pages:,} on all nodes"
    note(f"{ENDS[report.end]} after {age(report.seconds)}: {pages} in {options.collection.root}")
    needed = f" ({counted(total.requisites, 'requisite')})" if total.requisites else ""
    parts = [
        f"{amount(total.bytes)} in {counted(total.fetched, 'answer')}{needed}",
        counted(waiting, "URL", "wait"),
    ]
    note(", ".join(parts) + (f"; errors: {kinds(total.errors)}" if total.errors else ""))
    if total.refused:
        note(f"not asked: {kinds(total.refused)}")
    if "blocked_address" in total.errors:
        hint("addresses of private networks are asked with --allow-private only")
    if total.endings:
        note(f"left out by their endings: {links_to(total.endings)}; --all-types follows them")
    for repair in report.repairs:
        note(f"after a crash: {repaired(repair)}")
    if report.end == "waiting":
        note(f"{counted(waiting, 'URL', 'wait')} {awaited(total)}; run again later")
    elif report.end == "pages" and options.rules.requisites and total.errand is not None:
        note(f"not all that pages need is there: some of it waits {until(total.errand)}; run again later")
    if waiting and report.end != "pages":
        hint(f"to go on: webmill crawl {root}")
    if total.pages:
        hint(f"next: webmill index {root}")


def links_to(endings: Mapping[str, int]) -> str:
    """`214 links to .pdf, 30 to .jpg`: the most frequent."""
    most = sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{count:,} to .{ending}" for ending, count in most[:ENDINGS]]
    named[0] = named[0].replace(" to", " links to" if most[0][1] > 1 else " link to", 1)
    rest = sum(count for _, count in most[ENDINGS:])
    return ", ".join([*named, *[f"{rest:,} to others"] * bool(rest)])


def repaired(repair: Repair) -> str:
    kept = f"{repair.file} has {counted(repair.captures, 'whole capture')}"
    flaws = f", {counted(len(repair.flaws), 'damage')} in front of them" if repair.flaws else ""
    cut = f"; {counted(repair.cut, 'torn byte')} set aside in {repair.saved}" if repair.cut else ""
    return kept + flaws + cut
