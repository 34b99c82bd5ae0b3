"""`webmill frontier exclude` and `include`: domains that a crawl skips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.crawl import read_excluded_domains
from webmill.cli.frontier.options import crawl_argument, frontier_option, steer_crawl
from webmill.cli.text import format_count
from webmill.crawl.seeds import parse_domain
from webmill.errors import BadInput

domain_arguments: Callable[[Callable[..., None]], Callable[..., None]] = click.argument(
    "domains", nargs=-1, metavar="[DOMAIN]..."
)
file_option: Callable[[Callable[..., None]], Callable[..., None]] = click.option(
    "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File of domains, one per line."
)


@click.command(epilog="Example: webmill frontier exclude news/ example.net example.org")
@crawl_argument
@domain_arguments
@file_option
@frontier_option
def exclude(*, collection: Path, domains: tuple[str, ...], file: Path | None, frontier: str | None) -> None:
    """Stop crawling these domains, also in later runs. Their waiting URLs are kept, but not fetched."""
    exclude_domains(collection, parse_domains(domains, [file] if file else []), frontier=frontier)


@click.command(epilog="Example: webmill frontier include news/ example.net")
@crawl_argument
@domain_arguments
@file_option
@frontier_option
def include(*, collection: Path, domains: tuple[str, ...], file: Path | None, frontier: str | None) -> None:
    """Crawl excluded domains again: their waiting URLs and new links.

    Domains in the --exclude-domains file of the crawl are excluded again when it starts: remove them there as well.
    """
    include_domains(collection, parse_domains(domains, [file] if file else []), frontier=frontier)


def exclude_domains(collection: Path, domains: list[str], *, frontier: str | None) -> None:
    with steer_crawl(collection, frontier) as steering:
        print_domains(domains, "excluded", is_done=steering.exclude(domains))


def include_domains(collection: Path, domains: list[str], *, frontier: str | None) -> None:
    with steer_crawl(collection, frontier) as steering:
        print_domains(domains, "included", is_done=steering.include(domains))


def parse_domains(domains: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Return the domains; a typo stops the command, as a domain would be crawled or skipped by mistake."""
    if not (domains or files):
        raise click.UsageError("give a DOMAIN, or --file FILE")
    try:
        return [*map(parse_domain, domains), *(domain for file in files for domain in read_excluded_domains(file))]
    except BadInput as error:
        raise click.UsageError(f"{error.message} [{error.reason}]") from error


def print_domains(domains: list[str], word: str, *, is_done: bool) -> None:
    count = format_count(len(domains), "domain")
    note(f"{count} {word}" if is_done else f"{count} to be {word}: the running crawl does it next")
