"""Whose crawls a command means: Common Crawl's, those of a folder or a bucket, or those that another webmill serves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.options import together
from webmill.commoncrawl import crawl_storage
from webmill.commoncrawl.catalog import COMMON_CRAWL, LATEST, Crawl, newest_crawl, validate_crawl_name
from webmill.commoncrawl.crawl_storage import BATCH_RETRIES, open_crawl_storage
from webmill.errors import Misconfigured, NotFound
from webmill.infra.address import hide_secrets, scheme_of
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.backends import is_readable, readable_forms
from webmill.infra.storage.base import Readable
from webmill.settings import Settings


def _checked_base(_context: click.Context, _option: click.Parameter, base: str | None) -> str | None:
    if base and not is_readable(base):
        raise click.BadParameter(f"{hide_secrets(base)!r}: use {readable_forms()}")
    return base


# How fast a server is asked, and by whom.
politeness_options = together(
    click.option(
        "--rate",
        type=click.FloatRange(min=0),
        metavar="N",
        help="Maximum requests per second from this machine  [default: 5]",
    ),
    click.option(
        "--contact", metavar="TEXT", help="Your e-mail address or web page; sent to every server in the User-Agent."
    ),
)
# And who is asked: the same for all that ask.
server_options = together(
    click.option(
        "--base-url",
        metavar="URL|DIR",
        callback=_checked_base,
        help=f"Where the crawls are: https://…, s3://… or a folder  [default: {COMMON_CRAWL}]",
    ),
    politeness_options,
)


class ServerFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `server_options`."""

    base_url: str | None
    rate: float | None
    contact: str | None

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> ServerFlags:
        """Takes its own out of `flags`."""
        return cls(**{name: flags.pop(name) for name in cls.__struct_fields__})

    def over(self, settings: Settings) -> Settings:
        """Flags win."""
        replace = msgspec.structs.replace
        given = settings.commoncrawl
        rate = given.rate if self.rate is None else self.rate
        return replace(
            settings,
            http=replace(settings.http, contact=self.contact or settings.http.contact),
            commoncrawl=replace(given, rate=rate, base_url=self.base_url or given.base_url),
        )


def base_url_of(settings: Settings) -> str:
    return settings.commoncrawl.base_url.rstrip("/") or "/"


def note_missing_contact(settings: Settings, *places: str) -> None:
    """Once, when one of the places is a stranger's server."""
    if not settings.http.contact and any(map(is_foreign_server, places)):
        note("nobody can tell who asks: give --contact (or [http] contact) with your address or page")


def is_foreign_server(place: str) -> bool:
    if scheme_of(place)[0] not in ("http", "https"):
        return False
    host = urlsplit(place).hostname or ""
    return host not in ("localhost", "::1") and not host.startswith("127.")


def open_base_url(
    base: str, settings: Settings, *, policy: BackoffPolicy = BATCH_RETRIES, stop: threading.Event | None = None
) -> Readable:
    return open_crawl_storage(base, http=settings.http, commoncrawl=settings.commoncrawl, policy=policy, stop=stop)


def list_crawls(base: str, settings: Settings) -> list[Crawl]:
    """Newest first."""
    try:
        return crawl_storage.list_crawls(base, http=settings.http, commoncrawl=settings.commoncrawl)
    except NotFound as error:
        raise NotFound(f"{error}: check --base-url, or name one with --crawl") from error


def check_crawl_name(crawl: str) -> str:
    """What a person wrote; other wrong names come from servers."""
    try:
        return crawl if crawl == LATEST else validate_crawl_name(crawl)
    except Misconfigured as error:
        raise click.UsageError(str(error)) from error


def resolve_crawl(crawl: str, base: str, settings: Settings) -> str:
    return newest_crawl(list_crawls(base, settings)) if crawl == LATEST else validate_crawl_name(crawl)


@contextmanager
def explain_missing_index() -> Iterator[None]:
    """Around what reads an index: whoever names a crawl that is not there is told who knows the names."""
    try:
        yield
    except NotFound as error:
        raise NotFound(f"{error}: no such index; `webmill cc crawls` with the same --base-url names them") from error
