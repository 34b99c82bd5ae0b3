"""`webmill boards discover`."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from webmill.boards.board_list import read_board_list
from webmill.boards.discovery import Discovery, DiscoveryOptions, discover_boards, discover_departments
from webmill.boards.discovery_rules import KEYWORDS, BoardKeyword
from webmill.boards.reader import BoardReader
from webmill.cli.context import REJECTED, Context, hint, note, pass_context, warn
from webmill.cli.publish.board_flags import ReadingFlags, fetching_options, require_contact
from webmill.cli.publish.storage import print_json, publication_paths
from webmill.cli.text import escape_text, format_count
from webmill.errors import BadInput, NotFound, WrongUse
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of, normalise
from webmill.infra import atomic
from webmill.infra.user_agent import user_agent

SHOWN = 20  # pages for review that are printed
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    epilog="""\b
Examples:
  webmill boards discover https://cs.example.ac.kr/ -o boards.json \\
    --contact me@example.org
  webmill boards discover https://www.example.ac.kr/depts --departments \\
    --campus Seoul -o boards.json --review review.json

\b
The home page and the site map of URL are searched for links that are named
like a board (공지, 학사, 장학, notice, news, …; --keyword adds words), or
whose address is one of a known board system. Each is fetched, and is a board
if dated notices can be read from it without selectors of your own. Others
are listed for review: look at them, and write the good ones into the file.
Exit code 3: boards were found, and there is something to review.
1: no board was found."""
)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--departments", is_flag=True, help="URL lists departments: search the home page of each.")
@click.option("--campus", metavar="NAME", help="Name of the campus in the board list  [default: the domain]")
@click.option("--keyword", "words", multiple=True, metavar="WORD", help="Another word in names of boards; repeatable.")
@click.option("-o", "--output", type=FILE, help="Write the board list to this file  [default: stdout]")
@click.option("--review", "review_file", type=FILE, help="Write the pages to review to this file (JSON).")
@click.option(
    "--collection",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Share the host schedule of this collection with its crawls and boards.",
)
@fetching_options
@pass_context
def discover(
    context: Context,
    /,
    *,
    urls: tuple[str, ...],
    departments: bool,
    campus: str | None,
    words: tuple[str, ...],
    output: Path | None,
    review_file: Path | None,
    folder: Path | None,
    **flags: Any,
) -> None:
    """Find the notice boards of a web site and print a board list for `webmill publish run`.

    URL is the home page of a department or another site. Pages are fetched as a crawl does: robots.txt is obeyed, and
    a host gets one request at a time.
    """
    reading = ReadingFlags(**flags)
    addresses = [parse_address(url) for url in urls]
    contact = require_contact(reading.contact, context.settings(folder).http.contact)
    host = host_of(addresses[0])
    own = tuple(BoardKeyword(word, "board") for word in words)
    options = DiscoveryOptions(campus=campus or registered_domain(host) or host, keywords=(*KEYWORDS, *own))
    search = partial(discover_departments if departments else discover_boards, urls=addresses, options=options)
    with ExitStack() as stack:
        shared = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-boards-")))
        place = publication_paths(shared, create=True)
        reader = stack.enter_context(BoardReader(reading.options(place, user_agent=user_agent(contact))))
        found = reader.call(search)
    report(found, output=output, review_file=review_file)


def parse_address(url: str) -> str:
    try:
        return normalise(url)
    except BadInput as error:
        raise WrongUse(f"{url[:200]!r} is not an address of a web page: {error.message}") from None


def report(found: Discovery, *, output: Path | None, review_file: Path | None) -> None:
    if review_file:
        atomic.write_bytes(review_file, found.review_list())
    else:
        for page in found.review[:SHOWN]:
            warn(escape_text(f"review: {page.name or page.url}: {page.reason} ({page.url})")[:400])
        if len(found.review) > SHOWN:
            warn(f"{len(found.review) - SHOWN:,} more; --review FILE writes all of them")
    if not found.campus.departments:
        raise NotFound("no board was found; --keyword adds words to look for, and a board list can be written by hand")
    data = found.board_list()
    count = len(read_board_list(data).boards)
    sites = format_count(len(found.campus.departments), "site")
    if output:
        atomic.write_bytes(output, data)
        note(f"{format_count(count, 'board')} of {sites} written to {output}")
        hint(f"next: webmill publish run DIR --board-list {output}")
    else:
        print_json(data.rstrip())
        note(f"{format_count(count, 'board')} of {sites}")
    if found.review:
        where = f"see {review_file}" if review_file else "they are named above"
        warn(f"{format_count(len(found.review), 'page')} to review: {where}")
        raise click.exceptions.Exit(REJECTED)
