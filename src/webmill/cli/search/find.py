"""`webmill search DIR WORDS`."""

from __future__ import annotations

import shutil
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from webmill.cli.context import note, warn
from webmill.cli.param_types import require_folder
from webmill.cli.publish.storage import json_option, root_argument
from webmill.cli.search.options import search_options
from webmill.cli.text import escape_text, format_count
from webmill.model import CaptureRef
from webmill.pipeline.search.collection import search_collection as find_in
from webmill.search.base import (
    DEFAULT_LIMIT,
    MAX_HITS,
    MAX_OFFSET,
    SEARCH_MODES,
    HighlightedText,
    Hit,
    SearchAnswer,
    SearchFilters,
    SearchMode,
    SearchRequest,
)
from webmill.search.hits import AnswerReply, make_hit_reply
from webmill.search.query import QUERY_FIELDS, parse, replace_surrogates
from webmill.settings import Settings

DAY = click.DateTime(["%Y-%m-%d"])


_WORD = "\x00"  # marks words that begin with a dash; no argument contains it


class SearchCommand(click.Command):
    """Takes `-word` as a word to exclude, unless it is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        known = {name for option in options for name in option.opts}
        with_value = {name for option in options if not option.is_flag for name in option.opts}
        before = ["", *args]  # the value of an option is not a word
        return super().parse_args(
            ctx,
            [
                _WORD + arg if _is_word(arg) and arg not in known and last not in with_value else arg
                for last, arg in zip(before, args, strict=False)
            ],
        )


def _is_word(argument: str) -> bool:
    return argument.startswith("-") and not argument.startswith("--") and len(argument) > 1


class SearchFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that say which documents to find, and in which order."""

    languages: tuple[str, ...]
    sites: tuple[str, ...]
    facets: tuple[str, ...]
    since: datetime | None
    until: datetime | None
    published_since: datetime | None
    published_until: datetime | None
    types: tuple[str, ...]
    sort: Literal["relevance", "newest", "oldest"]
    limit: int
    offset: int
    counted: tuple[str, ...]
    mode: SearchMode

    def request(self, words: str) -> SearchRequest:
        filters = SearchFilters(
            languages=[*map(replace_surrogates, self.languages)],
            sites=[*map(replace_surrogates, self.sites)],
            facets=self._facets(),
            since=_seconds(self.since),
            until=_seconds(self.until),
            published_since=_seconds(self.published_since),
            published_until=_seconds(self.published_until),
        )
        counted = [*map(replace_surrogates, self.counted)]
        return SearchRequest(
            query=parse(words),
            filters=filters,
            sort=self.sort,
            limit=self.limit,
            offset=self.offset,
            facets=counted,
            mode=self.mode,
        )

    def _facets(self) -> dict[str, list[str]]:
        chosen = parse_facets(map(replace_surrogates, self.facets))
        return {**chosen, "type": [*chosen.get("type", []), *self.types]} if self.types else chosen


@click.command(
    cls=SearchCommand,
    epilog=f"""\b
All words must occur. "…" is a phrase, -word excludes, a OR b matches either,
word* is a prefix. These search one field:
{": ".join(QUERY_FIELDS)}:
\b
Examples:
  webmill search news/ annual report
  webmill search news/ '"annual report" OR budget -draft site:example.org'
  webmill search news/ report --since 2026-01-01 --sort newest
  webmill search news/ report --language kor --count site
  webmill search news/ 'why do rivers flood' --mode both --model minilm/
  webmill search news/ report --json | jq -r '.hits[].url'""",
)
@root_argument
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@search_options
@click.option(
    "--mode",
    type=click.Choice(SEARCH_MODES),
    default="words",
    show_default=True,
    help="Find documents with these words, with this meaning, or both, fused by rank.",
)
@click.option(
    "--language",
    "languages",
    multiple=True,
    metavar="LANGUAGE",
    help="Only documents in this language, by code or name; repeatable.",
)
@click.option(
    "--site", "sites", multiple=True, metavar="HOST", help="Only documents from this host or domain; repeatable."
)
@click.option(
    "--facet", "facets", multiple=True, metavar="NAME=VALUE", help="Only documents with this facet value; repeatable."
)
@click.option("--since", type=DAY, metavar="DAY", help="Only documents of this day or later: 2026-01-31.")
@click.option("--until", type=DAY, metavar="DAY", help="Only documents before this day.")
@click.option(
    "--published-since", type=DAY, metavar="DAY", help="Only pages that state this date of publication or a later one."
)
@click.option("--published-until", type=DAY, metavar="DAY", help="Only pages that state an earlier date.")
@click.option(
    "--type",
    "types",
    type=click.Choice(["html", "pdf", "text", "feed", "xml", "json", "other"]),
    multiple=True,
    help="Only documents of this type; repeatable.",
)
@click.option("--like", default="", metavar="ID", help="Find documents like this one, given by its id or URL.")
@click.option("--collapse", is_flag=True, help="Of documents that say nearly the same, show the first.")
@click.option("--as-of", default="", metavar="DATE", help="Search the version that was live then: 2026-03.")
@click.option(
    "--sort",
    type=click.Choice(["relevance", "newest", "oldest"]),
    default="relevance",
    show_default=True,
    help="Order of the hits.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_HITS),
    default=DEFAULT_LIMIT,
    show_default=True,
    metavar="N",
    help="Number of hits.",
)
@click.option(
    "--offset",
    type=click.IntRange(0, MAX_OFFSET),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of hits to skip.",
)
@click.option(
    "--count",
    "counted",
    multiple=True,
    metavar="NAME",
    help="Also count hits by language, site or a facet; repeatable.",
)
@json_option
def find(
    *,
    root: Path,
    words: tuple[str, ...],
    as_json: bool,
    settings: Settings,
    like: str,
    collapse: bool,
    as_of: str,
    **flags: Any,
) -> None:
    """Search the documents published in DIR for WORDS; without WORDS, list all documents."""
    request = SearchFlags(**flags).request(" ".join(word.removeprefix(_WORD) for word in words))
    if words and not request.query.parts:
        warn("the query has no words: all documents are listed")
    if request.query.was_cut:
        warn("the query is too long: only its first 2,000 characters and 64 terms are used")
    if not settings.search.url:
        require_folder(root)
    found = find_in(root, request, settings.search, like=like, as_of=as_of, collapse=collapse)
    if found.behind:
        warn(f"the index is {found.behind}: run webmill search update {root}")
    if found.problem:
        warn(f"the captures of these documents cannot be looked up: {found.problem}")
    answer = found.answer
    if as_json:
        click.echo(msgspec.json.encode(make_reply(answer)))
    else:
        print_hits(answer, offset=request.offset)


def parse_facets(given: Iterable[str]) -> dict[str, list[str]]:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--facet {each} is not NAME=VALUE")
        values[name].append(value)
    return dict(values)


def _seconds(day: datetime | None) -> int | None:
    return int(day.replace(tzinfo=UTC).timestamp()) if day else None


def make_reply(answer: SearchAnswer) -> AnswerReply:
    hits = [make_hit_reply(hit, capture=hit.capture) for hit in answer.hits]
    return AnswerReply(total=answer.total, hits=hits, facets=answer.facets, suggestion=answer.suggestion)


def print_hits(answer: SearchAnswer, *, offset: int) -> None:
    if answer.suggestion:
        note(f"no documents found; did you mean: {escape_text(answer.suggestion)}")
    for number, hit in enumerate(answer.hits, offset + 1):
        click.echo(format_hit(number, hit))
    for name, counts in answer.facets.items():
        click.echo(f"{name}: " + ", ".join(f"{escape_text(each.value)} {each.count:,}" for each in counts))
    note(f"{format_count(answer.total, 'document')} found")


def format_hit(number: int, hit: Hit) -> str:
    """Return title, URL and the matching part of the text, at most as wide as the terminal."""
    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    found = hit.document
    day = f"{found.date.astimezone(UTC):%Y-%m-%d}  " if found.date else ""
    title = f"{number}. {emphasise(hit.title) or escape_text(hit.id)}"
    text = textwrap.indent(textwrap.fill(emphasise(hit.snippet), width - 4), "    ") if hit.snippet.text else ""
    similar = f"    and {format_count(hit.similar, 'document')} like it" if hit.similar else ""
    lines = [
        title,
        f"    {day}{escape_text(found.url or found.id)}",
        format_capture(hit.capture) if hit.capture else "",
        text,
        similar,
    ]
    return "\n".join(line for line in lines if line) + "\n"


def format_capture(capture: CaptureRef) -> str:
    return escape_text(f"    {capture.timestamp} {capture.filename} at {capture.offset}, {capture.length} bytes")


def emphasise(marked: HighlightedText) -> str:
    """Return the text with matches in bold; click removes that where there is no terminal."""
    parts, last = [], 0
    for start, end in marked.marks:
        parts += [marked.text[last:start], click.style(marked.text[start:end], bold=True)]
        last = end
    return "".join([*parts, marked.text[last:]])
