"""The flags that select captures, and the selection they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click

from webmill.cli.options import together
from webmill.cli.query_options import date_options
from webmill.commoncrawl.selection import Selection, compile_selection, merge_ranges
from webmill.errors import BadInput
from webmill.formats.cdx.query import KeyRange, key_range, split_url_pattern
from webmill.formats.timestamps import earliest, latest

F = TypeVar("F", bound=Callable[..., object])


class ShareType(click.ParamType[float]):
    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            share = float(str(value))
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            self.fail(f"{value!r} is not a share: use a number above 0, up to 1", param, ctx)
        return share


def check_languages(_context: click.Context, _option: click.Parameter, languages: tuple[str, ...]) -> tuple[str, ...]:
    for language in languages:
        if not re.fullmatch("[a-z]{3}", language):
            raise click.BadParameter(
                f"{language!r} is not a language code: use three letters of ISO 639-3, such as eng"
            )
    return tuple(sorted({*languages}))


def language_option(*names: str, help_: str) -> Callable[[F], F]:
    return click.option(*names, multiple=True, metavar="CODE", callback=check_languages, help=help_)


filter_options = together(
    click.option(
        "--url",
        "urls",
        multiple=True,
        metavar="PATTERN",
        help="A URL, a prefix (URL*) or a domain (*.HOST); repeatable.",
    ),
    click.option("--domain", "domains", multiple=True, metavar="HOST", help="A domain and its subdomains; repeatable."),
    click.option("--prefix", "prefixes", multiple=True, metavar="URL", help="URLs that start with this; repeatable."),
    language_option("--language", "languages", help_="Language in the index, ISO 639-3: eng, fra; repeatable."),
    click.option(
        "--primary-language",
        "primary",
        is_flag=True,
        help="Match --language against the first language of a page only.",
    ),
    click.option("--status", "statuses", multiple=True, metavar="CODE", help="HTTP status, such as 200; repeatable."),
    click.option("--mime", "mimes", multiple=True, metavar="TYPE", help="Media type that the server sent; repeatable."),
    click.option(
        "--mime-detected",
        "mimes_detected",
        multiple=True,
        metavar="TYPE",
        help="Media type that was detected; repeatable.",
    ),
    click.option(
        "--charset",
        "charsets",
        multiple=True,
        metavar="NAME",
        help="Detected character set, such as UTF-8; repeatable.",
    ),
    date_options,
    click.option(
        "--url-regex", metavar="RE2", default="", help="Regular expression (RE2) to find anywhere in the URL."
    ),
    click.option(
        "--sample",
        type=ShareType(),
        default=1.0,
        show_default=True,
        help="Select only this share of the matching captures: 0.01.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Random seed of --sample."),
)


def parse_selection(
    *,
    urls: Iterable[str],
    domains: Iterable[str],
    prefixes: Iterable[str],
    start: str | None,
    end: str | None,
    statuses: tuple[str, ...],
    **others: Any,
) -> Selection:
    """Return the selection that the flags make; a wrong value is a usage error."""
    for status in statuses:
        if not re.fullmatch("[0-9]{3}", status):
            raise click.BadParameter(
                f"{status!r} is not a status: use three digits, such as 200", param_hint="--status"
            )
    values: dict[str, Any] = {
        name: tuple(sorted({*value})) if isinstance(value, tuple) else value for name, value in others.items()
    }
    try:
        selection = Selection(
            ranges=merge_ranges(key_ranges(urls, domains, prefixes)),
            start=earliest(start) if start else "",
            end=latest(end) if end else "",
            statuses=tuple(sorted({*statuses})),
            **values,
        )
        compile_selection(selection)  # reads the regular expression
    except BadInput as error:
        raise click.UsageError(str(error)) from error
    if start and end and selection.start > selection.end:
        raise click.UsageError(f"--from {start} is later than --to {end}: no capture can match")
    return selection


def key_ranges(urls: Iterable[str], domains: Iterable[str], prefixes: Iterable[str]) -> Iterator[KeyRange]:
    for pattern in urls:
        url, match_type = split_url_pattern(pattern)
        yield key_range(url, match_type or "exact")
    for domain in domains:
        yield key_range(domain.removeprefix("*."), "domain")
    for prefix in prefixes:
        yield key_range(prefix.removesuffix("*"), "prefix")
