"""The options of a CDX query: which captures of a URL, by match type, date and fields."""

from __future__ import annotations

import click
import msgspec

from webmill.cli.options import together
from webmill.formats.cdx.query import KeyRange, MatchType
from webmill.index.lookup.query import Query

match_option = click.option(
    "--match",
    type=click.Choice(["exact", "prefix", "host", "domain"]),
    metavar="TYPE",
    help="How to match: exact, prefix, host or domain  [default: exact; prefix for URL*; domain for *.HOST]",
)
date_options = together(
    click.option("--from", "start", metavar="DATE", help="Captured at or after this date: 2021, 2021-03, 20210304…"),
    click.option(
        "--to", "end", metavar="DATE", help="Captured before the end of this date: 2021 includes all of 2021."
    ),
)
filter_option = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FILTER",
    help="Condition on a field, see below; repeatable, all must hold.",
)
query_options = together(match_option, date_options, filter_option)
FILTERS_HELP = """\b
Filters:
  FIELD:VALUE    the field contains VALUE         !FIELD:VALUE   it does not
  =FIELD:VALUE   the field equals VALUE           !=FIELD:VALUE  it does not
  ~FIELD:RE2     RE2 matches the field's start    !~FIELD:RE2    it does not"""


class QueryFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `query_options`."""

    match: MatchType | None
    start: str | None
    end: str | None
    filters: tuple[str, ...]

    @property
    def is_given(self) -> bool:
        return bool(self.match or self.start or self.end or self.filters)

    def make_query(self, keys: KeyRange) -> Query:
        """Return the query for these index keys, in the order of the index."""
        return Query(range=keys, start=self.start, end=self.end, filters=self.filters)
