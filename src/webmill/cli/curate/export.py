"""`webmill curate export`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, hint, note, pass_context
from webmill.cli.text import escape_text, format_count
from webmill.pipeline.curate.export import SHARD_BYTES, CorpusExport, ExportOptions, export_corpus
from webmill.settings.value_formats import parse_size

FORMATS = {"hf": "parquet", "jsonl": "jsonl", "webdataset": "webdataset", "tokens": "tokens"}
_folder = click.Path(file_okay=False, path_type=Path)
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    epilog="""\b
Examples:
  webmill curate export news/ --hf news-corpus/
  webmill curate export news/ --hf corpus/ --license cc-by-4.0 --sign key.pem
  webmill curate export news/ --tokens ids/ --tokenizer tokenizer.json
Then, in Python: datasets.load_dataset("news-corpus/")

If it is interrupted, run it again. Into a folder with an earlier version only shards that differ are new."""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--hf", type=_folder, metavar="OUT", help="Folder for Parquet with a dataset card (load_dataset, DuckDB)."
)
@click.option("--jsonl", type=_folder, metavar="OUT", help="Folder for JSON lines (Zstandard).")
@click.option("--webdataset", type=_folder, metavar="OUT", help="Folder for tar files of WebDataset.")
@click.option("--tokens", type=_folder, metavar="OUT", help="Folder for token ids as Parquet; needs --tokenizer.")
@click.option("--tokenizer", type=_file, metavar="FILE", help="tokenizer.json of a model (webmill[tokens]).")
@click.option("--name", default="", help="Name on the dataset card  [default: the name of OUT]")
@click.option("--license", "licence", default="other", show_default=True, help="Licence on the dataset card.")
@click.option("--shard-size", metavar="SIZE", help="Size of a file  [default: 128M]")
@click.option(
    "--sign", type=_file, metavar="FILE", help="Private Ed25519 key (PEM) to sign the manifest (webmill[sign])."
)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON on stdout.")
@pass_context
def export(
    context: Context,
    /,
    *,
    root: Path,
    tokenizer: Path | None,
    name: str,
    licence: str,
    shard_size: str | None,
    sign: Path | None,
    as_json: bool,
    **outs: Path | None,
) -> None:
    """Export the corpus of DIR as a data set that other programs load in one line.

    The folder has a manifest with the SHA-256 of every file; `webmill verify-export OUT` compares. Readers see the
    version before until the new one is complete.
    """
    chosen = {name: out for name, out in outs.items() if out}
    if len(chosen) != 1:
        raise click.UsageError("give one of --hf, --jsonl, --webdataset and --tokens")
    ((kind, out),) = chosen.items()
    options = ExportOptions(
        format=FORMATS[kind],
        name=name,
        licence=licence,
        shard_bytes=shard_bytes_of(shard_size) if shard_size else SHARD_BYTES,
        sign=sign,
        tokenizer=tokenizer,
    )
    done = export_corpus(root.resolve(), out.resolve(), options, progress=context.progress)
    if as_json:
        click.echo(msgspec.json.encode(done.manifest))
    else:
        print_export(done, out, kind)


def shard_bytes_of(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--shard-size") from None


def print_export(done: CorpusExport, out: Path, kind: str) -> None:
    manifest = done.manifest
    files = f"{done.new} new, {done.unchanged} unchanged, {done.removed} removed"
    documents = format_count(manifest.documents, "document")
    note(f"{escape_text(str(out))}: {documents} in {format_count(len(manifest.data), 'file')} ({files})")
    if changes := manifest.changes:
        counts = f"{changes.added} added, {changes.changed} changed, {changes.removed} removed"
        note(f"since version {changes.before}: {counts}")
    if kind == "hf":
        hint(f"In Python: datasets.load_dataset({str(out)!r})")
