"""`webmill frontier pause` and `resume`: let a running crawl wait, and go on."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.context import hint, note
from webmill.cli.frontier.options import crawl_argument, frontier_option, steer_crawl


@click.command(epilog="Example: webmill frontier pause news/")
@crawl_argument
@frontier_option
def pause(*, collection: Path, frontier: str | None) -> None:
    """Pause a running crawl: requests under way end, no others are sent until it is resumed.

    Its process goes on running. Ctrl-C ends it as ever; the next `webmill crawl` or `run` is not paused.
    """
    with steer_crawl(collection, frontier) as steering:
        steering.pause()
    note("the crawl pauses when its requests under way have ended")
    hint(f"to go on: webmill frontier resume {collection}")


@click.command(epilog="Example: webmill frontier resume news/")
@crawl_argument
@frontier_option
def resume(*, collection: Path, frontier: str | None) -> None:
    """Let a running crawl go on that was paused."""
    with steer_crawl(collection, frontier) as steering:
        steering.resume()
    note("the crawl goes on")
