"""`webmill demo`: runs every stage on a small built-in web, with the commands that a person would type."""

from __future__ import annotations

import io
import shlex
import shutil
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from webmill.cli.context import Context, note, pass_context
from webmill.cli.main import INTERRUPTED, webmill
from webmill.cli.text import format_count
from webmill.pipeline.extract.collection import output_shape
from webmill.settings import Settings
from webmill.settings.reading import FILE_NAME
from webmill.testing import TestWeb

NAME = "DEMO"
CRAWL = """--scope any --page-resources --delay 0s --address-delay 0s --allow-private --contact demo@mill.example"""
SETTINGS = '[watch]\nevery = "1s"\n'  # by which every page is due again in the second crawl
MAX_TIME = "60s"
STEPS = 11
WORDS = "mill"


@click.command(
    epilog="""\b
Examples:
  webmill demo                      # then browse it until Ctrl-C
  webmill demo --no-serve           # ends by itself
  webmill demo --no-serve --keep demo/"""
)
@click.option("--serve/--no-serve", default=True, help="Serve the collection until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=8080,
    show_default=True,
    help="Port to serve on; 0 picks a free port.",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Create the collection in this folder and keep it.")
@pass_context
def demo(context: Context, /, *, serve: bool, port: int, keep: Path | None) -> None:
    """Try webmill: crawl, index, extract, publish, search and serve a small built-in web of 20 hosts.

    It runs on this machine only and does not use the network.
    """
    settings = context.settings()  # report a mistake in a settings file first
    if keep and keep.exists() and any(keep.iterdir()):
        raise click.UsageError(f"{keep} is not empty: choose a new folder")
    root = (keep or Path(tempfile.mkdtemp(prefix="webmill-demo-"))).resolve()
    try:
        with TestWeb() as web, context.progress("Demo", total=STEPS, unit="steps") as bar:
            DemoRun(root, web, settings, step=bar.advance).run()
        click.echo(OWN)
        if serve:
            webmill.main(["serve", str(root), "--port", str(port)], standalone_mode=False)
        elif keep:
            click.echo(f"Browse it: webmill serve {shlex.quote(str(keep))}")
    except (click.Abort, KeyboardInterrupt):
        note(f"stopped; the unfinished collection is in {keep}" if keep else "stopped; the collection was deleted")
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


OWN = """
The same for your own sites:
  webmill init news/ https://example.org/ --contact you@example.org
  webmill run news/
  webmill serve news/
"""


class DemoRun:
    """Runs every stage, changes the web, and runs the stages again. Each prints what it made."""

    def __init__(self, root: Path, web: TestWeb, settings: Settings, *, step: Any) -> None:
        self._root, self._web, self._settings, self._step = root, web, settings, step

    def run(self) -> None:
        hosts = len(self._web.names)
        report = self._crawl(self._web.home, "--max-time", MAX_TIME)
        pages = report["total"]["pages"]
        print_step(
            "crawl",
            f"{format_count(pages, 'page')} of {format_count(hosts, 'host')} in WARC files, obeying robots.txt",
        )
        warcs = [str(file) for file in self._root.glob("crawl-data/*/segments/*/warc/*.warc.gz")]
        report = self._run("derive", "all", *warcs, "--in-place")
        parsed = format_count(report["pages"], "HTML page")
        print_step("derive", f"WAT and WET files of {format_count(len(warcs), 'WARC file')}: {parsed}")
        self._index_and_extract()
        self._publish()
        self._web.advance()
        self._look_again()
        print_step("crawl", "again after the web has changed; unchanged pages become revisit records")
        self._index_and_extract()
        self._publish("--force")
        self._run("search", "update", str(self._root), json=False)
        found = self._run("search", str(self._root), WORDS)
        first = found["hits"][0]["title"]["text"]
        print_step(
            "search", f"{format_count(found['total'], 'document')} with the word {WORDS!r}; the first: {first[:40]}"
        )

    def _crawl(self, *arguments: str) -> Any:
        hosts = sorted({urlsplit(page.url).hostname or "" for page in self._web.pages()})
        resolve = [f"--resolve={host}={self._web.resolve[host][0]}:{self._web.port}" for host in hosts]
        return self._run("crawl", str(self._root), *arguments, *shlex.split(CRAWL), "--name", NAME, *resolve)

    def _look_again(self) -> None:
        """Look once at every page, as `webmill run` does in a collection that `webmill init` has made."""
        (self._root / FILE_NAME).write_text(SETTINGS)
        (self._root / "seeds.txt").write_text(f"{self._web.home}\n")
        self._run("run", str(self._root), "--stage", "crawl", json=False)

    def _index_and_extract(self) -> None:
        report = self._run("index", str(self._root))
        formats = "CDXJ, ZipNum (as of Common Crawl and pywb)" + ", Parquet" * bool(report["tables"])
        print_step("index", f"{format_count(report['captures'], 'capture')}: {formats}")
        report = self._run("extract", str(self._root))
        recipe = output_shape(self._settings.extract).recipe
        columns = "text, title" + ", language" * recipe.detect + ", links" * recipe.links
        print_step("extract", f"{format_count(report['documents'], 'document')} of new archives: {columns}")

    def _publish(self, *flags: str) -> None:
        report = self._run("publish", "documents", str(self._root), "--facet", "language", "--facet", "domain", *flags)
        counts, version = report["published"]["counts"], report["published"]["version"]["version"]
        changes = ", ".join(f"{counts[kind]:,} {kind}" for kind in ("added", "changed", "removed"))
        print_step("publish", f"version {version}: {format_count(counts['items'], 'published document')}, {changes}")

    def _run(self, *command: str, json: bool = True) -> Any:
        """Run a command as if it was typed, and return its JSON."""
        self._step()
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with redirect_stdout(output):
            code = webmill.main(["-q", *command, *(["--json"] if json else [])], standalone_mode=False)
        if code == INTERRUPTED:
            raise click.Abort
        if code:
            sys.exit(code)
        output.flush()
        return msgspec.json.decode(output.buffer.getvalue()) if json else None


def print_step(stage: str, what: str) -> None:
    click.echo(f"{stage:<8} {what}")
