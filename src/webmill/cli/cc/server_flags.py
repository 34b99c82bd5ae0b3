"""The flags that say which server or folder crawls are read from, and how fast."""

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
from webmill.infra.address import scheme_of
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.backends import is_readable, readable_forms
from webmill.infra.storage.base import Readable
from webmill.masking import hide_secrets
from webmill.settings import Settings


def _checked_base(_context: click.Context, _option: click.Parameter, base: str | None) -> str | None:
    if base and not is_readable(base):
        raise click.BadParameter(f"{hide_secrets(base)!r}: use {readable_forms()}")
    return base


# How fast requests are made, and by whom.
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
# The same, and where the crawls are.
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
        """Take these flags out of `flags`."""
        return cls(**{name: flags.pop(name) for name in cls.__struct_fields__})

    def apply_to(self, settings: Settings) -> Settings:
        """Return the settings with the values of the flags."""
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
    """Note that a contact is missing, if one of the places is somebody else's server."""
    if not settings.http.contact and any(map(is_foreign_server, places)):
        note("no contact is set: give --contact, or set [http] contact, so that the server's operators can reach you")


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
    """Return the crawls at `base`, newest first."""
    try:
        return crawl_storage.list_crawls(base, http=settings.http, commoncrawl=settings.commoncrawl)
    except NotFound as error:
        raise NotFound(f"{error}: check --base-url, or give a name with --crawl") from error


def check_crawl_name(crawl: str) -> str:
    """Return the name of a crawl that a person typed; a wrong one is a usage error."""
    try:
        return crawl if crawl == LATEST else validate_crawl_name(crawl)
    except Misconfigured as error:
        raise click.UsageError(str(error)) from error


def resolve_crawl(crawl: str, base: str, settings: Settings) -> str:
    return newest_crawl(list_crawls(base, settings)) if crawl == LATEST else validate_crawl_name(crawl)


@contextmanager
def explain_missing_index() -> Iterator[None]:
    """Add to a `NotFound` inside how to list the crawls."""
    try:
        yield
    except NotFound as error:
        raise NotFound(
            f"{error}: no such index; `webmill cc crawls` with the same --base-url lists the crawls"
        ) from error
