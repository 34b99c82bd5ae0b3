"""`webmill cdxj`: Unix tools for CDXJ indexes. Each streams from stdin or files to stdout or a file."""

from __future__ import annotations

import click

from webmill.cli.lazy import LazyGroup

COMMANDS = {
    "index": ("webmill.cli.cdxj.index:index", "WARC and ARC files to sorted CDXJ."),
    "sort": ("webmill.cli.cdxj.lines:sort", "Sort lines in byte order, in bounded memory."),
    "merge": ("webmill.cli.cdxj.lines:merge", "Merge sorted files; the order is checked."),
    "add-field": ("webmill.cli.cdxj.lines:add_field", "Add fields to every line."),
    "block": ("webmill.cli.cdxj.lines:block", "Drop the lines that a blocklist matches."),
    "excessive": ("webmill.cli.cdxj.excessive:excessive", "Find and thin out URLs with too many captures."),
    "field": ("webmill.cli.cdxj.lines:field", "Print one field of every line."),
    "zipnum": ("webmill.cli.cdxj.zipnum:zipnum", "Sorted lines to a ZipNum index (cdx-*.gz, cluster.idx)."),
    "flatten": ("webmill.cli.cdxj.zipnum:flatten", "A ZipNum index back to lines."),
    "query": ("webmill.cli.cdxj.query:query", "Look captures up by URL."),
    "verify": ("webmill.cli.cdxj.zipnum:verify", "Check a ZipNum index to the last byte."),
    "parquet": ("webmill.cli.cdxj.zipnum:parquet", "Lines to the columnar index (Parquet)."),
    "paths": ("webmill.cli.cdxj.paths:paths", "Where WARC files lie, for pywb: path index, Redis."),
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

    Every tool streams: input is a file, gzipped or not, or stdin; output is stdout or -o FILE, which appears
    only when it is complete. Counts go to stderr.
    """
