"""`webmill search`: searches the published documents."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "find": ("webmill.cli.search.find:find", "Search; short form: `webmill search DIR WORDS`."),
    "update": ("webmill.cli.search.index:update", "Update the index to the live version."),
    "rebuild": ("webmill.cli.search.index:rebuild", "Rebuild the index from scratch."),
    "check": ("webmill.cli.search.index:check", "Compare the index with the live version and fix differences."),
}


class SearchGroup(LazyGroup):
    """Runs `find` if the first word is not a command."""

    otherwise = "find"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands_at else [self.otherwise, *args])


@click.group(
    cls=SearchGroup,
    commands_at=COMMANDS,
    epilog="""\b
Examples:
  webmill search update news/
  webmill search news/ annual report
  webmill search news/ '"annual report" OR budget -draft site:example.org'
  webmill search news/ 서울시 예산 --language kor --sort newest --json""",
)
def search() -> None:
    """Search the documents published in DIR.

    The index is in DIR/search; `update` brings it up to the live version.
    """
