"""`webmill boards`: board lists for `webmill publish run`."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {"discover": ("webmill.cli.boards.discover:discover", "Find the notice boards of a web site.")}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example:
  webmill boards discover https://cs.example.ac.kr/ -o boards.json \\
    --contact me@example.org
  webmill publish run notices/ --board-list boards.json \\
    --contact me@example.org""",
)
def boards() -> None:
    """Find the notice boards of web sites and write a board list, which `webmill publish run` reads."""
