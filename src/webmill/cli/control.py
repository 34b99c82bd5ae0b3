"""`webmill control`: steers a crawl while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, hint, note, pass_context
from webmill.cli.frontier.add import add_urls
from webmill.cli.frontier.domains import exclude_domains, include_domains, parse_domains
from webmill.cli.frontier.options import crawl_argument, frontier_option, steer_crawl
from webmill.cli.log import format_event
from webmill.cli.status_rows import crawl_rows
from webmill.cli.text import escape_text, json_line
from webmill.crawl.control import read_events
from webmill.crawl.frontier.base import PRIORITIES
from webmill.crawl.status_file import CrawlStatus, node_slots, read_status

RUN_ACTIONS = ("pause", "resume", "stop", "reload", "status")  # of the run, without more words
ACTIONS = (*RUN_ACTIONS, "add", "exclude", "include")
SHOWN_EVENTS = 10


@click.command(
    epilog="""\b
Examples:
  webmill control news/ pause
  webmill control news/ reload              # after editing webmill.toml
  webmill control news/ exclude example.net
  webmill control news/ add https://example.com/new --priority 0
  webmill control news/ status

\b
pause    requests under way end, no others are sent until resume
resume   go on
stop     end the run, as Ctrl-C does: it exits with code 130
reload   read webmill.toml again: delay, scope, include, exclude, limits …;
         prints what changed, and what needs a new run
status   print how the crawl stands, and who told it what
add      add URLs; exclude, include: domains that are skipped, or not any more

What is told reaches all processes and nodes within 3 seconds. `webmill log
DIR --control` lists who did what when."""
)
@crawl_argument
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("what", nargs=-1, metavar="[URL|DOMAIN]...")
@frontier_option
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File of URLs or domains, one per line; repeatable.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITIES - 1),
    metavar="N",
    default=3,
    show_default=True,
    help="Priority of added URLs; 0 is fetched first.",
)
@click.option("--json", "as_json", is_flag=True, help="With status: print JSON.")
@pass_context
def control(
    context: Context,
    /,
    *,
    collection: Path,
    action: str,
    what: tuple[str, ...],
    frontier: str | None,
    files: tuple[Path, ...],
    priority: int,
    as_json: bool,
) -> None:
    """Steer the running crawl in DIR: pause, resume, stop, reload its settings, add URLs, exclude domains."""
    if action in RUN_ACTIONS and (what or files):
        raise click.UsageError(f"{action} takes no URLs or domains")
    acts: dict[str, Callable[[], None]] = {
        "pause": lambda: pause(collection, frontier),
        "resume": lambda: resume(collection, frontier),
        "stop": lambda: stop(collection, frontier),
        "reload": lambda: reload(context, collection, frontier),
        "status": lambda: print_status(collection, as_json=as_json),
        "add": lambda: add_urls(collection, what, files=files, priority=priority, depth=0, frontier=frontier),
        "exclude": lambda: exclude_domains(collection, parse_domains(what, files), frontier=frontier),
        "include": lambda: include_domains(collection, parse_domains(what, files), frontier=frontier),
    }
    acts[action]()


def pause(collection: Path, frontier: str | None) -> None:
    with steer_crawl(collection, frontier) as steering:
        steering.pause()
    note("the crawl pauses when its requests under way have ended")
    hint(f"to go on: webmill control {collection} resume")


def resume(collection: Path, frontier: str | None) -> None:
    with steer_crawl(collection, frontier) as steering:
        steering.resume()
    note("the crawl goes on")


def stop(collection: Path, frontier: str | None) -> None:
    with steer_crawl(collection, frontier) as steering:
        steering.stop()
    note("the crawl stops when its requests under way have ended")
    hint(f"to continue it later: webmill crawl {collection}")


def reload(context: Context, collection: Path, frontier: str | None) -> None:
    """Let the crawl read its settings, and print what changed. A file that is wrong is refused here already."""
    sources = context.sources(collection)
    with steer_crawl(collection, frontier) as steering:
        event = steering.reload(sources)
    if event is None:
        note("the crawl has not answered yet: `webmill log DIR --control` will tell what came of it")
    else:
        note(escape_text(event.details))


def print_status(collection: Path, *, as_json: bool) -> None:
    folder = collection.resolve() / "frontier"
    nodes = [read_status(folder, slot=slot) for slot in node_slots(folder)]
    events = list(read_events(folder))[-SHOWN_EVENTS:]
    if as_json:
        click.echo(json_line(msgspec.to_builtins({"nodes": [state_of(one) for one in nodes], "control": events})))
        return
    for one in nodes:
        for row in crawl_rows(one, now=time.time()):
            click.echo(f"{row.label:<10}{escape_text(row.text)}")
    for event in events:
        click.echo(format_event(event))


def state_of(status: CrawlStatus) -> dict[str, object]:
    """Return what a script asks: `state` is running, paused, stopping or not running."""
    total = status.total
    running = "stopping" if total.is_stopping else "paused" if total.is_paused else "running"
    return {
        "state": running if status.is_running else "not running",
        "end": status.end,
        "time": status.time,
        "pages": total.pages,
        "waiting": total.waiting,
        "active_domains": total.turns,
    }
