"""`webmill verify-export`."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.context import finish, note, warn
from webmill.cli.text import escape_text, format_count
from webmill.curate.manifest import check_signature, find_flaws, read_manifest


@click.command(
    epilog="""\b
Examples:
  webmill verify-export news-corpus/
  webmill verify-export news-corpus/ --key publisher.pem

Exit code 3: files are missing or have other bytes; the lines above say which."""
)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Public Ed25519 key (PEM) of the publisher: the manifest must be signed with it (webmill[sign]).",
)
def verify_export(*, folder: Path, key: Path | None) -> None:
    """Compare a data set with its manifest: every file's size and SHA-256, and the signature with --key."""
    manifest = read_manifest(folder)
    if key:
        check_signature(manifest, key)
    flaws = 0
    for flaw in find_flaws(folder, manifest):
        flaws += 1
        warn(escape_text(f"{flaw.path} {flaw.message}"))
    signature = (
        "the signature is right" if key else "signed, not compared: give --key" if manifest.signature else "not signed"
    )
    note(f"{escape_text(manifest.name)} {manifest.version}: {format_count(len(manifest.files), 'file')}, {signature}")
    finish(rejected=flaws, where="files that are not as the manifest says")
