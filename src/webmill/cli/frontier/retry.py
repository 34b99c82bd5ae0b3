"""`webmill frontier retry`: asks again for URLs that failed."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.context import hint, note
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import format_count
from webmill.crawl.frontier_admin.commands import retry_failed
from webmill.crawl.scheduler.commands import RetryUrls
from webmill.crawl.scope import check_patterns


@click.command(
    epilog="""\b
Examples:
  webmill frontier retry news/                            # all that failed
  webmill frontier retry news/ --error connect_refused
  webmill frontier retry news/ --error http_404 --url '/blog/'
  webmill frontier retry news/ --url '^https://example.org/prices$'"""
)
@crawl_argument
@click.option(
    "--error", "errors", multiple=True, metavar="KIND", help="Only this kind: dns_failed, http_503 …; repeatable."
)
@click.option(
    "--url", "pattern", default="", metavar="REGEX", help="Only URLs that match (RE2), also those that did not fail."
)
@frontier_option
def retry(*, collection: Path, errors: tuple[str, ...], pattern: str, frontier: str | None) -> None:
    """Fetch URLs again that failed, were refused, or match a pattern.

    The next `webmill run` fetches them; `webmill crawl` those that never gave a page.
    """
    check_patterns(*([pattern] if pattern else []))
    with open_crawl(collection, frontier) as place:
        count = retry_failed(place, RetryUrls(errors, pattern))
    if count is None:
        note("the running crawl fetches them again")
        return
    note(f"{format_count(count, 'URL')} to be fetched again")
    if count:
        hint(f"next: webmill run {collection}")
