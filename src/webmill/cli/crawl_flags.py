"""The flags of `webmill crawl` that say what crawl it is. It keeps them: to go on, none of them is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from click.core import ParameterSource

from webmill.cli.counts import ANY_COUNT, AT_LEAST_ONE
from webmill.cli.durations import DURATION, SIZE
from webmill.crawl.fetch import is_public
from webmill.crawl.seeds import Rejected, read_domains
from webmill.errors import Misconfigured
from webmill.infra import atomic
from webmill.pipeline.crawl.options import Limits, Manners, Reach, Refresh, Rules

FILE = "flags.json"
OF_ONE_RUN = frozenset({"max_pages", "max_time", "max_bytes", "max_wait", "refresh"})
LONGEST_WAIT = 3600.0  # for a server that wants to be left alone
OF_ONE_NODE = frozenset({"name", "frontier", "strict", "lost_files", "backup", "concurrency", "file_size"})


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    contact: str | None
    name: str | None
    scope: Literal["host", "domain", "path", "any"]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    exclude_domains: tuple[str, ...]
    depth: int | None
    max_pages: int | None
    max_pages_per_domain: int | None
    max_time: float | None
    max_bytes: int | None
    max_wait: float | None
    max_body: int
    delay: float
    address_delay: float
    requisites: bool
    max_requisites: int
    requisite_delay: float
    retry_wait: float
    concurrency: int
    refresh: bool
    refresh_every: float
    robots: bool
    nofollow: bool
    sitemaps: bool
    traps: bool
    all_types: bool
    languages: bool
    tls: Literal["verify", "archive"]
    allow_private: bool
    resolve: dict[str, tuple[str, int]]
    file_size: int
    frontier: str | None
    strict: bool
    lost_files: Literal["refuse", "rebuild"]
    backup: str | None

    def manners(self, user_agent: str) -> Manners:
        return Manners(
            user_agent=user_agent,
            delay=self.delay,
            address_delay=self.address_delay,
            requisite_delay=self.requisite_delay,
            obey_robots=self.robots,
            obey_nofollow=self.nofollow,
        )

    def limits(self) -> Limits:
        return Limits(
            pages=self.max_pages,
            pages_per_domain=self.max_pages_per_domain,
            seconds=self.max_time,
            bytes=self.max_bytes,
            wait=LONGEST_WAIT if self.max_wait is None and not self.refresh else self.max_wait,
            body=self.max_body,
            retry_wait=self.retry_wait,
            requisites=self.max_requisites,
        )

    def reach(self) -> Reach:
        return Reach(allow_private=self.allow_private, resolve=self.resolve, tls=self.tls)

    def rules(self) -> Rules:
        return Rules(
            scope=self.scope,
            include=self.include,
            exclude=self.exclude,
            depth=self.depth,
            traps=self.traps,
            extensions=not self.all_types,
            sitemaps=self.sitemaps,
            requisites=self.requisites,
        )

    def refreshing(self) -> Refresh:
        least = min(Refresh().least, self.refresh_every)  # what was asked for is never too often
        return Refresh(on=self.refresh, first=self.refresh_every, least=least)


class FixedAddress(click.ParamType[tuple[str, tuple[str, int]]]):
    name = "host=address:port"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, int]]:
        host, equals, address = str(value).partition("=")
        ip, colon, port = address.rpartition(":")
        ip = ip.removeprefix("[").removesuffix("]")
        is_port = re.fullmatch("[0-9]{1,5}", port) and int(port) < 1 << 16
        if not (equals and host and colon and is_port and is_public(ip) is not None):
            self.fail(f"{value!r} is not HOST=ADDRESS:PORT", param, ctx)
        return host.lower(), (ip, int(port))


OPTIONS = (
    click.option("--contact", help="Your e-mail or page: every server is told whom to ask."),
    click.option("--name", help="Name of the crawl  [default: that of DIR]"),
    click.option(
        "--scope",
        type=click.Choice(["host", "domain", "path", "any"]),
        default="host",
        show_default=True,
        help="How far from the seeds links are followed.",
    ),
    click.option("--include", multiple=True, metavar="REGEX", help="Only URLs in which one of these is found (RE2)."),
    click.option("--exclude", multiple=True, metavar="REGEX", help="No URLs in which one of these is found (RE2)."),
    click.option(
        "--exclude-domains",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File of domains never to ask.",
    ),
    click.option("--depth", type=ANY_COUNT, help="Links from a seed  [default: no limit]"),
    click.option("--max-pages", type=AT_LEAST_ONE, help="Stop after so many pages, in the whole crawl."),
    click.option("--max-pages-per-domain", type=AT_LEAST_ONE, help="No more of one domain."),
    click.option("--max-time", type=DURATION, help="Stop this run after 90s, 20m, 8h, 7d."),
    click.option("--max-bytes", type=SIZE, help="Stop this run after 500M, 20G."),
    click.option(
        "--max-wait",
        type=DURATION,
        help="End this run when none may be asked for so long; run again later  [default: 1h; with --refresh: any]",
    ),
    click.option("--max-body", type=SIZE, default="64M", show_default=True, help="Cut longer answers."),
    click.option("--delay", type=DURATION, default="70s", show_default=True, help="Between two requests to a domain."),
    click.option(
        "--address-delay", type=DURATION, default="1s", show_default=True, help="Between two requests to an address."
    ),
    click.option(
        "--requisites/--no-requisites",
        default=False,
        help="Fetch what pages need to be seen, too: pictures, styles, scripts, fonts, frames, wherever they lie.",
    ),
    click.option(
        "--max-requisites",
        type=AT_LEAST_ONE,
        default=Limits().requisites,
        show_default=True,
        help="Of one page; they do not count as pages.",
    ),
    click.option(
        "--requisite-delay",
        type=DURATION,
        default="1s",
        show_default=True,
        help="Before a requisite, instead of --delay. Never more than that.",
    ),
    click.option("--retry-wait", type=DURATION, default="60s", show_default=True, help="Before a second attempt."),
    click.option(
        "--concurrency", type=AT_LEAST_ONE, default=500, show_default=True, help="Domains asked at once, per process."
    ),
    click.option("--refresh", is_flag=True, help="Visit pages again, more often those that change."),
    click.option("--refresh-every", type=DURATION, default="1d", show_default=True, help="Until the first such visit."),
    click.option("--robots/--no-robots", default=True, help="Obey robots.txt. Only switch it off on your own site."),
    click.option("--nofollow/--no-nofollow", default=True, help="Obey nofollow in pages and headers."),
    click.option("--sitemaps/--no-sitemaps", default=True, help="Read the sitemaps that robots.txt names."),
    click.option("--traps/--no-traps", default=True, help="Guard against endless URLs (calendars, loops)."),
    click.option(
        "--all-types",
        is_flag=True,
        help="Follow links to PDF, office, picture, video and zip files, too.",
    ),
    click.option("--languages/--no-languages", default=True, help="Detect languages for the metadata records."),
    click.option(
        "--tls",
        type=click.Choice(["verify", "archive"]),
        default="verify",
        show_default=True,
        help="archive: fetch in spite of a bad certificate, and say so.",
    ),
    click.option("--allow-private", is_flag=True, help="Connect to private and loopback addresses and any port."),
    click.option("--resolve", multiple=True, type=FixedAddress(), metavar="HOST=ADDRESS:PORT", help="Instead of DNS."),
    click.option("--file-size", type=SIZE, default="1G", show_default=True, help="Begin a new WARC file then."),
    click.option("--frontier", metavar="redis://…", help="Crawl on many machines that meet in this Redis."),
    click.option("--strict", is_flag=True, help="Refuse a Redis that may lose what it has acknowledged."),
    click.option(
        "--lost-files",
        type=click.Choice(["refuse", "rebuild"]),
        default="refuse",
        show_default=True,
        help="Take over shards of a dead machine without its files, from Redis and --backup.",
    ),
    click.option("--backup", metavar="URL", help="Of the frontier, for --lost-files rebuild: the last one."),
)


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    return reduce(lambda decorated, option: option(decorated), reversed(OPTIONS), command)


def combined(context: click.Context, given: Mapping[str, Any], folder: Path) -> tuple[Flags, dict[str, Any]]:
    """What was given now; else what was given when the crawl began, or last; else the default. And what to keep."""
    values, chosen = chosen_of(context, given)
    kept = {**read(folder / FILE), **{name: value for name, value in chosen.items() if name not in OF_ONE_RUN}}
    return flags_of({**values, **kept, **chosen}, source=folder / FILE), kept


def chosen_of(context: click.Context, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """All values, and those that were given now."""
    values = dict(given)
    values["resolve"] = dict(given["resolve"])
    values["exclude_domains"] = excluded(given["exclude_domains"]) if given["exclude_domains"] else ()
    chosen = {
        name: value
        for name, value in values.items()
        if context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
    }
    return values, chosen


def flags_of(values: Mapping[str, Any], *, source: object) -> Flags:
    try:
        return msgspec.convert(values, Flags)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"{source}: {error}: repair it, or remove it and give all flags again") from error


class Agreed(msgspec.Struct, frozen=True):
    """What all nodes of a crawl are told, as it is kept in Redis."""

    flags: Flags
    crawl: dict[str, Any]
    run: dict[str, Any]
    node: dict[str, Any]  # to be kept in this folder


def agreed(
    context: click.Context,
    given: Mapping[str, Any],
    folder: Path,
    *,
    stored: Mapping[str, Any],
    running: Mapping[str, Any] | None,
) -> Agreed:
    """`stored` is what the crawl was told before, `running` the limits of the run under way: they cannot be changed."""
    _, chosen = chosen_of(context, given)
    node = {name: value for name, value in {**read(folder / FILE), **chosen}.items() if name in OF_ONE_NODE}
    of_crawl = {name: value for name, value in chosen.items() if name not in OF_ONE_NODE | OF_ONE_RUN}
    of_run = {name: value for name, value in chosen.items() if name in OF_ONE_RUN}
    if running is None:
        crawl, run = {**stored, **of_crawl}, of_run
    else:
        crawl, run = dict(stored), dict(running)
    flags = flags_of({**defaults(context), **node, **crawl, **run}, source="the flags that the crawl has in Redis")
    if running is not None:
        wanted = flags_of({**msgspec.to_builtins(flags), **of_crawl, **of_run}, source="the flags")
        differing = [
            f"--{name.replace('_', '-')}"
            for name in (*of_crawl, *of_run)
            if getattr(wanted, name) != getattr(flags, name)
        ]
        if differing:
            raise Misconfigured(
                f"other nodes crawl with other values of {', '.join(differing)}: stop them, or leave it out"
            )
    return Agreed(flags, _plain(crawl), _plain(run), node)


def defaults(context: click.Context) -> dict[str, Any]:
    """Of all flags, as if none were given."""
    command = context.command
    bare = command.make_context(command.name, ["."], parent=context.parent).params
    values = {name: value for name, value in bare.items() if name in Flags.__struct_fields__}
    return {**values, "resolve": {}, "exclude_domains": ()}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from Redis."""
    return msgspec.json.decode(msgspec.json.encode(values), type=dict[str, Any])


def keep(flags: Mapping[str, Any], folder: Path) -> None:
    atomic.make_folder(folder)
    atomic.write_bytes(folder / FILE, msgspec.json.format(msgspec.json.encode(flags)) + b"\n")


def read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}: repair it, or remove it and give all flags again") from error


def excluded(path: Path) -> tuple[str, ...]:
    """A domain must not be asked because of a slip of the pen: a bad line is an error here, not a reject."""
    domains = []
    for domain in read_domains(path):
        if isinstance(domain, Rejected):
            raise Misconfigured(f"{path}:{domain.line}: {domain.text!r} [{domain.reason}]: give registered domains")
        domains.append(domain)
    return tuple(domains)
