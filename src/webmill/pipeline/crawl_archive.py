"""Crawl into a collection's WARC files: on this machine, or as one of many nodes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from webmill import collection as collections
from webmill.archive.recovery import Repair, recover
from webmill.archive.segment import write_paths_files
from webmill.archive.writer import WarcinfoDetails, WarcWriter
from webmill.crawl import kept_settings as kept
from webmill.crawl.backends import crawl_backends, open_meeting
from webmill.crawl.cluster.join import Terms, crawl_as_node, gone_from
from webmill.crawl.options import Backends, Limits, Manners, Options, Reach, Refresh, Rules
from webmill.crawl.progress import Snapshot
from webmill.crawl.scheduler.process_group import Crew, End
from webmill.crawl.scope import must_be_patterns
from webmill.crawl.seeds import ARGUMENTS, Rejected, excluded_domain, read_seeds
from webmill.crawl.start import NoSeeds, Report
from webmill.crawl.start import crawl as crawl_here
from webmill.errors import BadInput, Misconfigured, WrongUse
from webmill.infra.address import hide_secrets
from webmill.infra.user_agent import user_agent
from webmill.settings import Settings, Sources

Watch = Callable[[Snapshot], None]
SETTINGS = ("crawl", "http.contact", "metrics.port")  # what the command and the function take
NOT_A_SEED = {  # by the reasons of `crawl.seeds`
    "bad_host": "has no host that can be looked up",
    "bad_url": "is no URL",
    "credentials": "names a user or a password, which are never sent",
    "scheme": "is not of http or https",
    "url_too_long": "is too long for a URL",
}


class WarcArchive:
    """The WARC files of a crawl, in a segment of its own. `repairs` lists the files that were repaired."""

    def __init__(
        self,
        collection: collections.Collection,
        *,
        operator: str,
        max_bytes: int,
        languages: bool,
        segment: str = "",
    ) -> None:
        """Without a `segment` the time of now names it."""
        self._collection, self._operator = collection, operator
        self._segment = segment or datetime.now(UTC).strftime("%Y%m%d%H%M%S")
        self._max_bytes, self._languages = max_bytes, languages
        self.repairs: list[Repair] = []

    def open_writer(self, *, stem: str, now: Callable[[], datetime]) -> WarcWriter:
        return WarcWriter(
            self._collection,
            segment=self._segment,
            stem=stem,
            software=WarcinfoDetails(operator=self._operator, hostname=socket.gethostname()),
            max_bytes=self._max_bytes,
            now=now,
            languages=self._languages,
        )

    def recover(self) -> None:
        self.repairs += recover(self._collection)

    def finish(self) -> None:
        self.recover()
        write_paths_files(self._collection)


class CrawlReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a run of a crawl ended. `total` counts the whole crawl; `rejected` are seeds that are no URLs."""

    collection: str
    end: End
    total: Snapshot
    seconds: float
    seeds: int
    repairs: list[Repair]
    rejected: list[Rejected]


class Seeds:
    """URLs and files of URLs; what is none is kept, with where it stood."""

    def __init__(self, urls: Iterable[str] = (), *, files: Iterable[Path] = ()) -> None:
        self._urls, self._files = tuple(urls), tuple(files)
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


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks on: `show` gets a snapshot now and then, `started` the crew, to stop it. `notice` gets sentences."""

    show: Watch = lambda _: None
    started: Callable[[Crew], None] = lambda _: None
    notice: Callable[[str], None] = lambda _: None
    verbosity: int = 0  # of the processes' logs


def crawl_archive(
    root: Path,
    seeds: Seeds,
    *,
    sources: Sources,
    watching: Watching | None = None,
    forget: Collection[kept.Name] = (),
) -> CrawlReport:
    """Begin the crawl in `root`, or go on with it, until it ends or is stopped.

    `forget` names settings that the crawl kept and that do not count any more.
    """
    watching, folder = watching or Watching(), root / "frontier"
    settings, keeping = kept.settings_of(sources, folder, forget=forget)
    crawl = settings.crawl
    if crawl.frontier and crawl.processes:
        raise WrongUse("--processes is for one machine: with --frontier say --shards")
    if not crawl.frontier and (crawl.shards or crawl.nodes > 1):
        raise WrongUse("--shards and --nodes are for many machines: name a Redis with --frontier")
    archive = WarcArchive(
        collections.Collection(root, crawl.name or collections.default_crawl_name(root)),
        operator=settings.http.contact or "",
        max_bytes=crawl.file_size,
        languages=crawl.languages,
    )
    try:
        if crawl.frontier:
            report = on_nodes(root, seeds, settings, sources, watching, forget, archive)
        else:
            report = on_one_machine(root, seeds, settings, keeping, watching, archive)
    except NoSeeds as error:
        raise NoSeeds(f"{error}: {describe(seeds.rejected) or 'there is none'}") from None
    values = {field: getattr(report, field) for field in Report.__struct_fields__}
    return CrawlReport(collection=str(root), rejected=seeds.rejected, repairs=archive.repairs, **values)


def on_one_machine(
    root: Path,
    seeds: Seeds,
    settings: Settings,
    keeping: dict[str, object],
    watching: Watching,
    archive: WarcArchive,
) -> Report:
    options = options_of(root, settings, archive=archive, backends=crawl_backends(), verbosity=watching.verbosity)
    if not (seeds.are_given or options.seeds.exists()):
        raise WrongUse(f"there is no crawl in {root} yet: name a URL to begin with, or --seeds FILE")
    processes = settings.crawl.processes
    if processes is None and not (options.folder / "crawl.json").exists():
        processes = cores()
    begun = partial(_begun, watching, keeping, options.folder)
    return crawl_here(options, seeds, processes=processes, watch=watching.show, hired=begun)


def on_nodes(
    root: Path,
    seeds: Seeds,
    settings: Settings,
    sources: Sources,
    watching: Watching,
    forget: Collection[kept.Name],
    archive: WarcArchive,
) -> Report:
    folder, redis = root / "frontier", settings.crawl.frontier
    name = settings.crawl.name or collections.default_crawl_name(root)
    with closing(open_meeting(redis, name=name)) as meeting:
        running = meeting.limits(is_gone=gone_from(folder))
        agreement = kept.agree(sources, folder, stored=meeting.flags(), running=running, forget=forget)
        crawl = agreement.settings.crawl
        promise = meeting.promise(strict=crawl.strict)
        watching.notice(f"Redis at {hide_secrets(meeting.server.place)}, if it dies: {promise}")
        rebuild = crawl.lost_files == "rebuild"
        backends = crawl_backends(redis, name=name, strict=crawl.strict, rebuild=rebuild, backup=crawl.backup or None)
        options = options_of(root, agreement.settings, archive=archive, backends=backends, verbosity=watching.verbosity)
        if not seeds.are_given and not any(meeting.seeds()):
            raise WrongUse(f"there is no crawl {name} in this Redis yet: name a URL to begin with, or --seeds FILE")
        terms = Terms(
            flags=agreement.crawl,
            limits=agreement.run,
            shards=crawl.shards,
            begin_with=crawl.nodes,
            rebuilds=rebuild,
        )
        begun = partial(_begun, watching, {**agreement.node, "frontier": redis, "name": name}, folder)
        return crawl_as_node(options, seeds, meeting=meeting, terms=terms, watch=watching.show, hired=begun)


def _begun(watching: Watching, keeping: dict[str, object], folder: Path, crew: Crew) -> None:
    """The crawl is ours: what it was told counts from now on."""
    kept.keep(keeping, folder)
    watching.started(crew)


def options_of(
    root: Path, settings: Settings, *, archive: WarcArchive, backends: Backends, verbosity: int = 0
) -> Options:
    """Return what the processes of the crawl are told. Refuses what cannot be meant before anything is kept."""
    crawl, contact = settings.crawl, settings.http.contact
    if not contact:
        raise Misconfigured(
            "servers must be told whom to ask: give --contact me@example.org, or set [http] contact in webmill.toml"
        )
    must_be_patterns(*crawl.include, *crawl.exclude)
    return Options(
        collection=collections.Collection(root, crawl.name or collections.default_crawl_name(root)),
        archive=archive,
        backends=backends,
        settings=msgspec.structs.replace(crawl, exclude_domains=excluded(crawl.exclude_domains)),
        manners=Manners.of(crawl, user_agent=user_agent(contact)),
        limits=Limits.of(crawl),
        reach=Reach(allow_private=crawl.allow_private, resolve=crawl.resolve, tls=crawl.tls),
        rules=Rules.of(crawl),
        refresh=Refresh.of(crawl),
        verbosity=verbosity,
        log_format=settings.log.format,
    )


def excluded(domains: Iterable[str]) -> tuple[str, ...]:
    """A domain must not be asked because of a slip of the pen: what is none is an error here, not a reject."""
    try:
        return tuple(map(excluded_domain, domains))
    except BadInput as error:
        raise Misconfigured(f"exclude_domains: {error}: give registered domains") from error


def describe(rejected: list[Rejected]) -> str:
    """Return the first seeds that are none, with where they stood and why."""
    return "; ".join(
        ("" if one.source == ARGUMENTS else f"{one.source} line {one.line}: ")
        + f"{one.text!r} {NOT_A_SEED.get(one.reason, one.reason)}"
        for one in rejected[:3]
    )


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
