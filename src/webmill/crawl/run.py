"""Run the crawl of a collection by its settings: on this machine, or as one of many nodes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from webmill import collection as collections
from webmill.crawl import stored_settings
from webmill.crawl.archive import CrawlArchive
from webmill.crawl.backends import crawl_backends, open_cluster
from webmill.crawl.browser.options import BrowserOptions
from webmill.crawl.fetch import check_servers
from webmill.crawl.layout import CrawlFolder, refuse_lost_files
from webmill.crawl.options import (
    CrawlBackends,
    CrawlLimits,
    CrawlOptions,
    CrawlRules,
    NetworkAccess,
    Politeness,
    UsagePolicy,
)
from webmill.crawl.politeness.pace import SHORTEST
from webmill.crawl.politeness.request_signer import open_signer
from webmill.crawl.politeness.session import given_cookies
from webmill.crawl.reload import SettingsReloader
from webmill.crawl.scheduler.coordinator import Coordinator
from webmill.crawl.scope import check_patterns
from webmill.crawl.seeds import Seeds, parse_domain
from webmill.crawl.start import CrawlRunReport, RunWatcher, start_crawl
from webmill.crawl.visit.revisit_schedule import RevisitSchedule
from webmill.errors import BadInput, Misconfigured, WrongUse
from webmill.infra.executor.pool import available_cores
from webmill.infra.plugins.sources import PluginSource
from webmill.infra.user_agent import user_agent
from webmill.masking import hide_secrets
from webmill.settings import CrawlSettings, Settings, Sources, Values

WATCH_WAIT = 600.0  # seconds that a run that watches waits for hosts when nothing else is left

OpenArchive = Callable[[collections.Collection, Settings], CrawlArchive]


class CrawlWatcher(RunWatcher, frozen=True, kw_only=True):
    """Who follows a crawl. `notice` gets sentences for a person."""

    notice: Callable[[str], None] = lambda _: None
    verbosity: int = 0  # of the processes' logs


class CollectionCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of a collection's crawl is given."""

    root: Path
    seeds: Seeds
    sources: Sources
    open_archive: OpenArchive
    watcher: CrawlWatcher
    forget: Collection[stored_settings.Name]
    watch: float | None = None
    plugins: tuple[PluginSource, ...] = ()

    @property
    def folder(self) -> Path:
        return self.root / "frontier"


def run_in_collection(
    root: Path,
    seeds: Seeds,
    *,
    sources: Sources,
    open_archive: OpenArchive,
    watcher: CrawlWatcher,
    forget: Collection[stored_settings.Name] = (),
    watch: float | None = None,
    plugins: tuple[PluginSource, ...] = (),
) -> CrawlRunReport:
    """Begin the crawl in `root`, or go on with it, until it ends or is stopped.

    `watch`: look again at what is due, for runs that come about every so many seconds.
    """
    crawl = CollectionCrawl(
        root=root,
        seeds=seeds,
        sources=sources,
        open_archive=open_archive,
        watcher=watcher,
        forget=forget,
        watch=watch,
        plugins=plugins,
    )
    settings, values = stored_settings.resolve_settings(sources, crawl.folder, forget=forget)
    if settings.crawl.frontier and settings.crawl.processes:
        raise WrongUse("--processes is for one machine: with --frontier say --shards")
    if not settings.crawl.frontier and (settings.crawl.shards or settings.crawl.nodes > 1):
        raise WrongUse("--shards and --nodes are for many machines: name a Redis with --frontier")
    return run_on_nodes(crawl, settings) if settings.crawl.frontier else run_locally(crawl, settings, values)


def run_locally(crawl: CollectionCrawl, settings: Settings, values: dict[str, object]) -> CrawlRunReport:
    options = make_options(crawl, settings, backends=crawl_backends())
    if not (crawl.seeds.are_given or options.folder.seeds.exists()):
        raise WrongUse(f"there is no crawl in {crawl.root} yet: name a URL to begin with, or --seeds FILE")
    if settings.crawl.lost_files == "refuse":
        refuse_lost_files(options.folder)
    processes = settings.crawl.processes
    if processes is None and not options.folder.layout.exists():
        processes = available_cores()
    reloader = SettingsReloader(
        settings,
        read=lambda: read_again(crawl),
        make_options=lambda chosen: make_options(crawl, chosen, backends=crawl_backends()),
    )
    watcher = storing(crawl, values)
    return start_crawl(options, crawl.seeds, processes=processes, watcher=watcher, reload=reloader.reload)


def read_again(crawl: CollectionCrawl) -> tuple[Settings, Values]:
    """Return the settings of a crawl that runs, and what its file says now."""
    sources = crawl.sources.refreshed()
    forget = {*crawl.forget, *sources.file} if crawl.forget else ()  # whoever forgot what the file has, still does
    return stored_settings.resolve_settings(sources, crawl.folder, forget=forget)[0], sources.file


def run_on_nodes(crawl: CollectionCrawl, settings: Settings) -> CrawlRunReport:
    from webmill.crawl.cluster.first_node import await_first_node
    from webmill.crawl.cluster.join import NodeTerms, crawl_as_node, dead_nodes_of
    from webmill.crawl.cluster.node_reload import NodeReloader

    folder, redis = crawl.folder, settings.crawl.frontier
    name = settings.crawl.name or collections.default_crawl_name(crawl.root)
    with closing(open_cluster(redis, name=name)) as cluster:
        if not crawl.seeds.are_given:
            watcher, patience = crawl.watcher, settings.crawl.join_wait
            await_first_node(cluster, notice=watcher.notice, is_stopped=watcher.is_stopped, patience=patience)
        running = cluster.run_limits(is_dead=dead_nodes_of(folder))
        agreed = stored_settings.agree_on_settings(
            crawl.sources, folder, stored=cluster.flags(), running=running, forget=crawl.forget
        )
        chosen = agreed.settings.crawl
        durability = cluster.durability(strict=chosen.strict)
        crawl.watcher.notice(f"Redis at {hide_secrets(cluster.server.place)}, if it dies: {durability}")
        rebuild, backup = chosen.lost_files == "rebuild", chosen.backup or None
        backends = crawl_backends(redis, name=name, strict=chosen.strict, rebuild=rebuild, backup=backup)
        options = make_options(crawl, agreed.settings, backends=backends)
        terms = NodeTerms(
            flags=agreed.crawl,
            limits=agreed.run,
            shards=chosen.shards,
            min_nodes=chosen.nodes,
            rebuilds=rebuild,
        )
        reloader = NodeReloader(
            agreed.settings,
            sources=crawl.sources,
            folder=folder,
            forget=crawl.forget,
            cluster=cluster,
            make_options=lambda chosen: make_options(crawl, chosen, backends=backends),
        )
        storing_watcher = storing(crawl, {**agreed.node, "frontier": redis, "name": name})
        return crawl_as_node(
            options, crawl.seeds, cluster=cluster, terms=terms, watcher=storing_watcher, reload=reloader.reload
        )


def storing(crawl: CollectionCrawl, values: dict[str, object]) -> RunWatcher:
    """Return the crawl's watcher. When the run has started, its settings are stored: they count from now on."""

    def started(coordinator: Coordinator) -> None:
        crawl.watcher.started(coordinator)
        stored_settings.store(values, crawl.folder)

    return RunWatcher(show=crawl.watcher.show, started=started)


def make_options(crawl: CollectionCrawl, settings: Settings, *, backends: CrawlBackends) -> CrawlOptions:
    """Return what the processes of the crawl are told. Refuses what cannot be meant before anything is stored."""
    chosen, contact = settings.crawl, settings.http.contact
    if not contact:
        raise Misconfigured(
            "servers must be told whom to ask: give --contact me@example.org, or set [http] contact in webmill.toml"
        )
    if chosen.delay == 0 and not chosen.allow_private:
        crawl.watcher.notice("delay is 0: a host is asked again as soon as it has answered; only for your own")
    check_patterns(*chosen.include, *chosen.exclude)
    open_signer(chosen, crawl.root)  # says now what is wrong with its keys
    check_servers(chosen.dns_servers)
    for sentence in check_sites(chosen, crawl.root):
        crawl.watcher.notice(sentence)
    browser = BrowserOptions.from_settings(chosen, root=crawl.root)
    if browser and browser.mode == "auto":
        crawl.watcher.notice(f"pages that are empty without their scripts are shown in {browser.program}")
    collection = collections.Collection(crawl.root, chosen.name or collections.default_crawl_name(crawl.root))
    return CrawlOptions(
        folder=CrawlFolder(collection),
        archive=crawl.open_archive(collection, settings),
        backends=backends,
        settings=msgspec.structs.replace(chosen, exclude_domains=parse_domains(chosen.exclude_domains)),
        politeness=Politeness.from_settings(chosen, user_agent=user_agent(contact, purpose=chosen.purpose)),
        limits=make_limits(chosen, crawl.watch),
        network=NetworkAccess.from_settings(chosen),
        rules=CrawlRules.from_settings(chosen),
        usage=UsagePolicy.from_settings(chosen),
        plugins=crawl.plugins,
        revisits=revisit_schedule(crawl.watch, settings),
        browser=browser,
        verbosity=crawl.watcher.verbosity,
        log_format=settings.log.format,
    )


def check_sites(settings: CrawlSettings, root: Path) -> Iterator[str]:
    """Yield what a person should know of the tables of sites and of cookies. Misconfigured: one cannot be used."""
    for number, site in enumerate(settings.sites, 1):
        check_patterns(*(site.include or ()), *(site.exclude or ()))
        is_fast = isinstance(site.delay, float | int) and site.delay < SHORTEST
        if is_fast and not (site.agreement or settings.allow_private):
            yield (
                f"[[site]] number {number} ({site.name}) asks every {site.delay:g} s: only for your own servers, or "
                'with agreement = "who agreed to it, and when"'
            )
    for file in given_cookies(settings, root):
        if file.stat().st_mode & 0o077:
            yield f"other users of this machine can read {file}: chmod 600 {shlex.quote(str(file))}"


def revisit_schedule(watch: float | None, settings: Settings) -> RevisitSchedule:
    """Return when pages are visited again: by runs that watch, or as a crawl with `--refresh` does."""
    if watch:
        return RevisitSchedule.watching(watch, longest=settings.watch.longest)
    return RevisitSchedule.from_settings(settings.crawl)


def make_limits(settings: CrawlSettings, watch: float | None) -> CrawlLimits:
    """Return the limits of a run. One of many does not hold up what all other hosts gave: the next one asks again."""
    limits = CrawlLimits.from_settings(settings)
    if watch is None or settings.max_wait is not None:
        return limits
    return msgspec.structs.replace(limits, wait=min(WATCH_WAIT, watch))


def parse_domains(domains: Iterable[str]) -> tuple[str, ...]:
    """Return registered domains. A typing error is refused: the domain that was meant must not be asked."""
    try:
        return tuple(map(parse_domain, domains))
    except BadInput as error:
        raise Misconfigured(f"exclude_domains: {error}: give registered domains") from error
