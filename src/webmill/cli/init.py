"""`webmill init`: creates a collection with a settings file that explains every setting."""

from __future__ import annotations

import json
import textwrap
from itertools import groupby
from pathlib import Path

import click

from webmill.cli.context import note
from webmill.crawl.seeds import RejectedSeed, describe_rejected, read_seeds
from webmill.errors import Conflict
from webmill.infra import atomic
from webmill.pipeline.trust import is_new, remember_own
from webmill.settings import FILE_NAME, SECTIONS, TABLES, CrawlSettings, Setting, WatchSettings, file_settings

WIDTH = 116
HEAD = """\
# Settings of this collection. Lines that start with # show the default; remove the # to change one.
# An environment variable overrides a setting for one run: WEBMILL_HTTP_CONTACT for http.contact.
"""


TABLE_EXAMPLES = """
# What is no change on some pages; as many as you like. docs/reference/changes.md
# [[ignore]]
# match = "*.example.org"                # or example.org, example.org/news/*, a list of these
# selectors = [".ad", "#weather"]        # CSS: elements that are left out of the text
# patterns = ["Mood of the day: .*"]     # regular expressions (RE2) of what is left out of the comparison
# numbers = true                         # all numbers, prices as well
# dates = true                           # all dates and times, deadlines as well

# What is different on some sites; as many as you like. docs/reference/sites.md
# [[site]]
# match = "*.example.org"                # or example.org, example.org/news/*, a list of these
# delay = "10s"                          # or auto; below 3s say who agreed to it: agreement = "…"
# scope = "domain"                       # host, domain, path or any; also include, exclude, depth
# page_resources = true
# max_pages = 5000                       # of each domain
# cookies = "cookies.txt"                # or off, session; also auth, headers, user_agent

# Who is told what changed; as many as you like. `webmill alerts test` tries them. docs/reference/alerts.md
# [[alert]]
# to = "mailto:me@example.org"           # or https://… (a webhook), or an address of Apprise for chat services
# match = 'site:example.org "price"'     # as in a search; without it every change is told
# kinds = ["added", "changed", "removed", "moved"]
# digest = "run"                         # one message per run, hour or day
"""


@click.command(
    epilog="""\b
Examples:
  webmill init news/ https://example.org/ --contact me@example.org
  webmill run news/                   # crawl, index, extract, publish, search
  webmill serve news/"""
)
@click.argument("root", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("seeds", metavar="[URL]...", nargs=-1)
@click.option("--contact", default="", help="Your e-mail address or web page; sent to every server in the User-Agent.")
def init(*, root: Path, seeds: tuple[str, ...], contact: str) -> None:
    """Create a collection in DIR: a webmill.toml that explains every setting, and a file of seeds.

    Existing files are never changed.
    """
    refuse_bad_seeds(seeds)
    root = root.resolve()
    is_own = is_new(root)
    atomic.make_folder(root)
    written = {FILE_NAME: make_settings_file(contact).encode(), CrawlSettings().seeds: make_seeds_file(seeds).encode()}
    there = [name for name in written if (root / name).exists()]
    if there:
        raise Conflict(f"{root} has a {' and a '.join(there)} already: edit it, or choose another folder")
    if is_own:
        remember_own(root, made_by="init")
    for name, data in written.items():
        atomic.create_exclusive(root / name, data, mode=atomic.OWNER if name == FILE_NAME else atomic.EVERYONE)
        note(f"created {root / name}")
    if not seeds:
        note(f"Write URLs or domains into {CrawlSettings().seeds}.")
    if not contact:
        note(f"Set contact in {FILE_NAME} to your e-mail address or web page; every server is sent it.")
    note(f"{'Next' if seeds and contact else 'Then'}: webmill run {root}")


def refuse_bad_seeds(seeds: tuple[str, ...]) -> None:
    """Refuse what cannot be crawled before anything is created."""
    rejected = [seed for seed in read_seeds(seeds) if isinstance(seed, RejectedSeed)]
    if rejected:
        raise click.UsageError(describe_rejected(rejected))


def make_seeds_file(seeds: tuple[str, ...]) -> str:
    return "".join(["# URLs or domains, one per line.\n", *(f"{seed}\n" for seed in seeds)])


def make_settings_file(contact: str) -> str:
    """Return a settings file that lists and explains every setting; only given values are not commented out."""
    # An archive should be replayable; users who only want text set page_resources to false.
    given = {("http", "contact"): contact, ("crawl", "page_resources"): True, ("watch", "every"): WatchSettings().every}
    parts = [HEAD]
    shown = (one for one in file_settings() if (one.section, one.key) not in TABLES.values())
    for section, settings in groupby(shown, key=lambda one: one.section):
        parts.append(f"\n[{section}]\n" + wrap_comment(SECTIONS[section].__doc__ or ""))
        parts += [make_line(one, given.get((section, one.key))) for one in settings]
    return "".join([*parts, TABLE_EXAMPLES])


def make_line(one: Setting, given: object) -> str:
    """Return the line of a setting, with its description behind it, or above it where that is too long."""
    value = json.dumps(one.write(given or one.default), ensure_ascii=False)
    line = f"{'' if given else '# '}{one.key} = {value}"
    nothing = "0" if one.default == 0 else "empty"
    about = one.description + (f" {nothing}: {one.declared.none}." if one.declared.none else "")
    if len(line) + len(about) < WIDTH:
        return f"{line}  # {about}\n"
    return wrap_comment(about) + f"{line}\n"


def wrap_comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(" ".join(text.split()), 100))
