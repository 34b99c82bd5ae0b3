"""`webmill qa`: checks in a browser how archived pages are replayed."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.param_types import AT_LEAST_ONE, require_folder
from webmill.cli.text import escape_text
from webmill.crawl.browser.pool import BrowserPool
from webmill.crawl.browser.process import BrowserLimits, require_browser
from webmill.errors import WebmillError
from webmill.infra import atomic
from webmill.infra.detached import start_detached
from webmill.infra.lock import exclusive, is_locked
from webmill.model import CaptureRef
from webmill.pipeline.save import save_page
from webmill.serve.open_site import open_site
from webmill.serve.qa.results import PageQuality, missing_by_host, results_folder
from webmill.serve.qa.run import check_pages
from webmill.serve.qa.sample import named_pages, sample_pages
from webmill.serve.site import Site
from webmill.settings import Settings

BELOW = 3  # exit code
LOCK = "qa"
WORST_SHOWN, HOSTS_SHOWN = 20, 10
# Names that the browser of a check is given answers for; nothing listens there.
ZONE, VIEW = "http://replay.localhost:8081", "http://view.replay.localhost:8080"


@click.command(
    epilog="""\b
Examples:
  webmill qa news/                             # 20 pages
  webmill qa news/ --sample 200 --fail-under 80
  webmill qa news/ --url https://news.example/ --again
  webmill qa news/ --capture-below 60          # capture bad pages again

Exit code 3: a page is below --fail-under, or something left the archive. A run that was stopped goes on where it was:
results are in DIR/.webmill/qa/, and on the page /qa of `webmill serve DIR`."""
)
@click.argument("root", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--url", "urls", multiple=True, metavar="URL", help="Check the newest capture of this page; repeatable.")
@click.option("--sample", type=AT_LEAST_ONE, default=20, show_default=True, help="Number of pages, when none is named.")
@click.option("--again", is_flag=True, help="Check pages anew that have a result.")
@click.option(
    "--fail-under",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    metavar="SCORE",
    help="Lowest score that is good enough.",
)
@click.option(
    "--capture-below",
    type=click.IntRange(0, 101),
    metavar="SCORE",
    help="Capture pages below this score again, politely, and check what came of it.",
)
@click.option("--browser-path", default="", metavar="FILE", help="Chromium to use  [default: the best one on PATH]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON lines on stdout.")
@pass_context
def qa(
    context: Context,
    *,
    root: Path,
    urls: tuple[str, ...],
    sample: int,
    again: bool,
    fail_under: int,
    capture_below: int | None,
    browser_path: str,
    as_json: bool,
) -> None:
    """Check how pages of the collection in DIR are replayed, in a browser without a network.

    Each page is shown twice: fed by the archive alone, without any rewriting, and as `webmill serve` replays it. What
    the two say and look like, what is missing, which scripts fail, and what would have left the archive make a score.
    """
    program = require_browser(browser_path)
    site = open_check_site(require_folder(root))
    index = site.index()
    pages = named_pages(index, urls) if urls else sample_pages(index, sample)
    if not pages:
        note("no page with status 200 is indexed here, so nothing was checked")
        return
    with exclusive(root, LOCK, doing="checking how pages are replayed"):
        results = asyncio.run(check_all(context, site, pages, program, again=again, as_json=as_json))
        bad = [one.url for one in results if capture_below is not None and one.score < capture_below]
        if bad and capture_again(context, root, bad):
            site = open_check_site(root)
            pages = named_pages(site.index(), bad)
            new = asyncio.run(check_all(context, site, pages, program, again=again, as_json=as_json))
            results = sort_worst_first([*(one for one in results if one.url not in bad), *new])
    if not as_json:
        print_summary(results)
    if any(one.score < fail_under or one.leaks for one in results):
        raise click.exceptions.Exit(BELOW)


def open_check_site(root: Path) -> Site:
    """Return the site as a server would, without limits for its one client."""
    settings = Settings()
    settings = msgspec.structs.replace(settings, serve=msgspec.structs.replace(settings.serve, rate=0))
    return open_site(
        root,
        settings,
        address=VIEW,
        replay_address="http://127.0.0.1:8081",
        zone_address=ZONE,
        view_address=VIEW,
        secret=secrets.token_bytes(32),
    )


async def check_all(
    context: Context, site: Site, pages: list[CaptureRef], program: Path, *, again: bool, as_json: bool
) -> list[PageQuality]:
    pool = BrowserPool(program, BrowserLimits(), tabs=1)
    found: list[PageQuality] = []
    try:
        async for one in check_pages(site, pages, pool, again=again):
            found.append(one)
            if as_json:
                click.echo(msgspec.json.encode(one).decode())
            elif not context.quiet:
                note(f"{len(found)}/{len(pages)} {one.score:3} {escape_text(one.url)}")
    finally:
        await pool.close()
    return sort_worst_first(found)


def sort_worst_first(results: list[PageQuality]) -> list[PageQuality]:
    return sorted(results, key=lambda one: (one.score, one.url))


def capture_again(context: Context, root: Path, urls: list[str]) -> int:
    """Save each page anew, as `webmill save` does; return how many were."""
    saved = 0
    for url in urls:
        try:
            report = save_page(root, url, sources=context.sources(root), notice=note)
        except WebmillError as error:
            warn(f"{escape_text(url)} was not captured again: {escape_text(str(error))}")
            continue
        if report.page.filename:
            saved += 1
        else:
            warn(f"{escape_text(url)} was not captured again: {escape_text(report.page.error)}")
    return saved


def start_check(context: Context, root: Path) -> None:
    """Start a check that goes on after this process, as the settings say: the same pages, those with new captures."""
    try:
        require_browser("")
    except WebmillError as error:
        warn(f"pages are not checked: {error}")
        return
    if is_locked(root, LOCK):
        note("pages are still being checked since the last run")
        return
    folder = results_folder(root)
    atomic.make_folder(folder)
    sample = context.settings(root).qa.sample
    start_detached(["qa", str(root), "--sample", str(sample)], log=folder / "log")
    note(f"pages are checked in the background: `webmill serve` shows them at /qa, the log is {folder / 'log'}")


def print_summary(results: list[PageQuality]) -> None:
    mean = sum(one.score for one in results) / len(results)
    click.echo(f"{len(results)} pages, mean score {mean:.0f}")
    for one in results[:WORST_SHOWN]:
        click.echo(f"{one.score:3}  {escape_text(one.url)}  {describe(one)}")
    if hosts := missing_by_host(results):
        click.echo("Missing by host (webmill save URL captures a page again):")
        for host, count in hosts[:HOSTS_SHOWN]:
            click.echo(f"{count:5}  {escape_text(host)}")
    for one in results:
        for url in one.leaks:
            warn(f"{escape_text(one.url)} asked for {escape_text(url)}, outside the archive")


def describe(one: PageQuality) -> str:
    if one.failure:
        return escape_text(one.failure)
    parts = [f"text {one.text:.0%}"]
    if one.picture is not None:
        parts.append(f"picture {one.picture:.0%}")
    if one.captured_text is not None:
        parts.append(f"text of the capture {one.captured_text:.0%}")
    if one.captured_picture is not None:
        parts.append(f"picture of the capture {one.captured_picture:.0%}")
    parts += [
        f"{len(found)} {name}"
        for found, name in ((one.missing, "missing"), (one.errors, "script errors"), (one.leaks, "leaks"))
        if found
    ]
    return ", ".join(parts)
