"""The flags of `publish run`, `publish work` and `boards discover` that say how boards are read."""

from __future__ import annotations

import click
import msgspec

from webmill.boards.types import BoardLimits, ReaderOptions, board_manners
from webmill.cli.options import together
from webmill.cli.param_types import AT_LEAST_ONE, DURATION, FIXED_ADDRESS
from webmill.collection import PublishFolders
from webmill.crawl.options import NetworkAccess
from webmill.errors import Misconfigured

fetching_options = together(
    click.option("--contact", help="Your e-mail address or web page; sent to every server in the User-Agent."),
    click.option(
        "--delay", type=DURATION, default="1s", show_default=True, help="Time between two requests to the same host."
    ),
    click.option("--zone", default="Asia/Seoul", show_default=True, help="Time zone of dates that do not state one."),
    click.option("--robots/--no-robots", default=True, help="Obey robots.txt. Turn this off only for your own site."),
    click.option("--allow-private", is_flag=True, help="Allow private and loopback addresses, and any port."),
    click.option(
        "--resolve",
        multiple=True,
        type=FIXED_ADDRESS,
        metavar="HOST=ADDRESS:PORT",
        help="Connect to this address for HOST instead of asking DNS; repeatable.",
    ),
)
reading_options = together(
    click.option(
        "--pages", type=AT_LEAST_ONE, default=1, show_default=True, help="Maximum pages to read of each listing."
    ),
    click.option(
        "--body-age",
        type=DURATION,
        default="1d",
        show_default=True,
        help="Fetch the body of a post again after this time.",
    ),
    fetching_options,
)


class ReadingFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `reading_options`, or of `fetching_options` alone."""

    contact: str | None
    pages: int = 1
    delay: float
    body_age: float = 86400.0
    zone: str
    robots: bool
    allow_private: bool
    resolve: tuple[tuple[str, tuple[str, int]], ...]

    def options(self, place: PublishFolders, *, user_agent: str) -> ReaderOptions:
        politeness = board_manners(user_agent, delay=self.delay)
        return ReaderOptions(
            politeness=msgspec.structs.replace(politeness, obey_robots=self.robots),
            gates=place.gates,
            cache=place.cache,
            limits=BoardLimits(pages=self.pages, body_age=self.body_age),
            network=NetworkAccess(allow_private=self.allow_private, resolve=dict(self.resolve)),
            zone=self.zone,
        )


def require_contact(flag: str | None, setting: str) -> str:
    contact = flag or setting
    if not contact:
        raise Misconfigured(
            "servers must know whom to contact: give --contact me@example.org, or set [http] contact in webmill.toml"
        )
    return contact
