"""`webmill frontier why`: what is known of a URL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, pass_context
from webmill.cli.crawl_progress import format_until
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import escape_text, format_ago, spell_out
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.frontier_admin.explain import UrlExplanation, explain_url
from webmill.crawl.seeds import parse_seed
from webmill.crawl.stored_settings import resolve_settings
from webmill.crawl.yields.yield_store import PARKED
from webmill.errors import BadInput
from webmill.pipeline.explain_usage import UsageExplanation, explain_usage

ROBOTS = {
    "allowed": "robots.txt allows it",
    "forbidden": "robots.txt forbids it; --no-robots ([crawl] robots = false) is for your own site",
    "unreachable": "robots.txt could not be fetched, so nothing of the host is",
    "unknown": "robots.txt is not known yet, or has to be fetched again",
    "ignored": "robots.txt is not obeyed (--no-robots)",
}


@click.command(epilog="Example: webmill frontier why news/ https://example.com/page --json")
@crawl_argument
@click.argument("url", metavar="URL")
@frontier_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@pass_context
def why(context: Context, /, *, collection: Path, url: str, frontier: str | None, as_json: bool) -> None:
    """Show what is known of a URL: whether it waits or was visited, what came of it, and when it is due.

    Also whether it is in scope and allowed by robots.txt, as the settings are now, and the pace of its host.
    """
    print_explanation(context, collection, url, frontier=frontier, as_json=as_json)


def print_explanation(
    context: Context, collection: Path, url: str, *, frontier: str | None = None, as_json: bool = False
) -> None:
    """Print what is known of a URL, and what the rules say of it."""
    try:
        wanted = parse_seed(url)
    except BadInput as error:
        raise click.UsageError(f"{url!r} is not a URL that can be fetched: {error.message}") from error
    root = collection.resolve()
    settings, _ = resolve_settings(context.sources(root), root / "frontier")
    with open_crawl(collection, frontier) as place:
        found = explain_url(place, wanted, settings.crawl, now=time.time())
    usage = explain_usage(root, wanted, found.state.last, found.state.robots, settings.crawl, now=time.time())
    if as_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(found), "usage": msgspec.to_builtins(usage)}))
        return
    for label, words in [*explain_rows(found, now=time.time()), *usage_rows(usage)]:
        click.echo(escape_text(f"{label:<10}{words}"))


def usage_rows(usage: UsageExplanation) -> Iterator[tuple[str, str]]:
    yield "usage", f"for {usage.purpose}: {usage.outcome}: {usage.decided}"
    for one in usage.statements:
        yield "", f"{one.usage}={'y' if one.allowed else 'n'} by {one.source}: {one.text}"


def parked_pattern(last: LastVisit | None) -> str:
    """Return the pattern for which a URL was parked, or "" if it was not."""
    kind, _, pattern = last.error.partition(": ") if last else ("", "", "")
    return pattern if kind == PARKED else ""


def explain_rows(found: UrlExplanation, *, now: float) -> Iterator[tuple[str, str]]:
    state, last = found.state, found.state.last
    yield "url", found.url + (" (a seed)" if found.is_seed else "")
    why_unknown = "links to what is left out are not kept" if found.scope else "no page that was read links to it"
    known = {"unknown": f"not known: {why_unknown}", "not visited": "not visited; it may wait"}
    attempt = f", attempt {state.attempts}" if state.attempts > 1 else ""
    pattern = parked_pattern(last)
    yield "known", "parked, and not fetched" if pattern else known.get(state.known, state.known) + attempt
    if pattern:
        yield "pattern", f"{pattern}: its pages gave nothing new"
    elif last:
        what = spell_out(last.error) if last.error else f"status {last.status}"
        yield "last", f"{format_ago(max(0.0, now - last.time))}: {what}{' (gone)' if last.gone else ''}"
        if last.filename:
            yield "", f"{last.filename}, byte {last.offset:,}"
    if state.due is not None:
        yield "due", "now" if state.due <= now else format_until(state.due).removeprefix("until ")
    elif pattern:
        yield "due", f"when its pattern is released: webmill frontier release DIR '{pattern}'"
    elif state.known == "visited":
        yield "due", "never again; `webmill frontier retry` asks for it once more"
    yield "scope", f"left out: {spell_out(found.scope)}" if found.scope else "in scope"
    if found.site:
        yield "site", found.site
    yield "robots", ROBOTS[found.robots]
    asked = f"; its robots.txt asks for {found.crawl_delay:g} s" if found.crawl_delay else ""
    yield "pace", f"{found.delay} between two requests to {state.domain}{asked}"
    if state.domain_free > now:
        yield "", f"{state.domain} is not asked {format_until(state.domain_free)}"
