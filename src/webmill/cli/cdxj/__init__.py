"""`webmill cdxj`: Unix tools for CDXJ indexes. Each streams from stdin or files to stdout or a file."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "index": ("webmill.cli.cdxj.index:index", "Index WARC and ARC files as sorted CDXJ."),
    "sort": ("webmill.cli.cdxj.lines:sort", "Sort lines in byte order, in bounded memory."),
    "merge": ("webmill.cli.cdxj.lines:merge", "Merge sorted files; the order is checked."),
    "add-field": ("webmill.cli.cdxj.lines:add_field", "Add fields to every line."),
    "block": ("webmill.cli.cdxj.lines:block", "Drop the lines that a blocklist matches."),
    "excessive": ("webmill.cli.cdxj.excessive:excessive", "Find or drop URLs with too many captures."),
    "field": ("webmill.cli.cdxj.lines:field", "Print one field of every line."),
    "zipnum": ("webmill.cli.cdxj.zipnum:zipnum", "Write sorted lines as a ZipNum index (cdx-*.gz, cluster.idx)."),
    "flatten": ("webmill.cli.cdxj.zipnum:flatten", "Print all lines of a ZipNum index."),
    "query": ("webmill.cli.cdxj.query:query", "Look up captures by URL."),
    "verify": ("webmill.cli.cdxj.zipnum:verify", "Check every byte of a ZipNum index."),
    "parquet": ("webmill.cli.cdxj.zipnum:parquet", "Write sorted lines as a columnar index (Parquet)."),
    "paths": ("webmill.cli.cdxj.paths:paths", "Make pywb's path index of WARC files; load it into Redis."),
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    epilog="""\b
Example: the index of two WARC files for pywb, without spam
  webmill cdxj index a.warc.gz b.warc.gz \\
    | webmill cdxj block -b blocklist.txt \\
    | webmill cdxj zipnum -o index/""",
)
def cdxj() -> None:
    """Make, filter, merge, compress and query CDXJ indexes.

    Every command streams: it reads a file (plain or gzip) or stdin, and writes to stdout or to -o FILE, which
    appears only when it is complete. Counts go to stderr.
    """
