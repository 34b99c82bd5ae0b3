"""`webmill publish`: versions of a data set, from boards or documents."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "run": ("webmill.cli.publish.run:run", "Read the boards of a board list and publish a version."),
    "work": ("webmill.cli.publish.work:work", "Read boards for a run that another command started."),
    "documents": ("webmill.cli.publish.documents:documents", "Publish the documents of a collection."),
    "list": ("webmill.cli.publish.versions:list_", "List the versions."),
    "show": ("webmill.cli.publish.versions:show", "Show a version: counts, sources, errors, documents."),
    "diff": ("webmill.cli.publish.versions:diff", "Show what changed between two versions."),
    "rollback": ("webmill.cli.publish.versions:rollback", "Make an older version live again."),
    "gc": ("webmill.cli.publish.maintenance:gc", "Delete old versions and the blobs only they use."),
    "verify": ("webmill.cli.publish.maintenance:verify", "Check versions and blobs, and repair damage."),
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
    """Publish a data set in versions: content is stored under its hash, and a pointer names the live version.

    DIR holds blobs/, snapshots/ and latest.json; with --storage they are in an object store. Versions never change,
    and unchanged content is not written again.
    """
