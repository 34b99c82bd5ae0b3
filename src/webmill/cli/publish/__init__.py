"""`webmill publish`: versions of a data set, from boards or documents."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "run": ("webmill.cli.publish.run:run", "Read the boards of a board list, publish a version."),
    "work": ("webmill.cli.publish.work:work", "Read boards for runs of other machines."),
    "documents": ("webmill.cli.publish.documents:documents", "Publish the documents of a collection."),
    "list": ("webmill.cli.publish.versions:list_", "List the versions."),
    "show": ("webmill.cli.publish.versions:show", "A version: counts, sources, errors, items."),
    "diff": ("webmill.cli.publish.versions:diff", "What changed between two versions."),
    "rollback": ("webmill.cli.publish.versions:rollback", "Make an old version the live one."),
    "gc": ("webmill.cli.publish.upkeep:gc", "Remove old versions and what only they need."),
    "verify": ("webmill.cli.publish.upkeep:verify", "Check every hash; say what is damaged, repair it."),
    "dead": ("webmill.cli.dead:dead", ""),  # its old name
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: a set of boards, every ten minutes
  webmill publish run notices/ --board-list boards.json --every 10m \\
    --contact me@example.org
  webmill publish list notices/
  webmill publish diff notices/ previous live""",
)
def publish() -> None:
    """Versions of a data set: content under its hash, one pointer to the live version.

    DIR holds blobs/, snapshots/ and latest.json; with --storage they are in an object store. A version is never
    changed; what did not change is never written again.
    """
