"""Whose crawls a command means: Common Crawl's, those of a folder or a bucket, or those that another webmill serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from webmill import wiring
from webmill.commoncrawl.catalog import COMMON_CRAWL, LATEST, Crawl, checked_name, newest
from webmill.config import Settings
from webmill.errors import Misconfigured, NotFound
from webmill.infra.retry import Policy
from webmill.infra.storage.base import Readable
from webmill.wiring import PATIENT, open_crawls, scheme_of

F = TypeVar("F", bound=Callable[..., object])


def _checked_base(_context: click.Context, _option: click.Parameter, base: str | None) -> str | None:
    if base and scheme_of(base)[0] not in ("file", "http", "https", "s3"):
        raise click.BadParameter(f"{base!r}: use a path, http(s)://… or s3://BUCKET/PREFIX")
    return base


def base_url_option(command: F) -> F:
    return click.option(
        "--base-url",
        metavar="URL|DIR",
        callback=_checked_base,
        help=f"Where the crawls are: https://…, s3://commoncrawl/, a folder  [default: {COMMON_CRAWL}]",
    )(command)


def base_of(settings: Settings, flag: str | None) -> str:
    return (flag or settings.commoncrawl.base_url).rstrip("/") or "/"


def open_base(
    base: str, settings: Settings, *, policy: Policy = PATIENT, stop: threading.Event | None = None
) -> Readable:
    return open_crawls(base, http=settings.http, commoncrawl=settings.commoncrawl, policy=policy, stop=stop)


def list_crawls(base: str, settings: Settings) -> list[Crawl]:
    """Newest first."""
    try:
        return wiring.list_crawls(base, http=settings.http, commoncrawl=settings.commoncrawl)
    except NotFound as error:
        raise NotFound(f"{error}: check --base-url, or name one with --crawl") from error


def checked_crawl(crawl: str) -> str:
    """What a person wrote; other wrong names come from servers."""
    try:
        return crawl if crawl == LATEST else checked_name(crawl)
    except Misconfigured as error:
        raise click.UsageError(str(error)) from error


def resolve(crawl: str, base: str, settings: Settings) -> str:
    return newest(list_crawls(base, settings)) if crawl == LATEST else checked_name(crawl)


@contextmanager
def naming_crawls() -> Iterator[None]:
    """Around what reads an index: whoever names a crawl that is not there is told who knows the names."""
    try:
        yield
    except NotFound as error:
        raise NotFound(f"{error}: no such index; `webmill cc crawls` with the same --base-url names them") from error
