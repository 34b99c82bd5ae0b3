"""The page about crawlers that were killed: docs/reference/crash-rivals.md."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

COLUMNS = {
    "stops": "stops",
    "crawls": "crawls",
    "lost": "pages lost",
    "unreadable": "files unreadable",
    "damaged": "records damaged",
    "twice": "records twice",
    "fetched_again": "fetched again",
    "failed": "runs with an error",
    "unfinished": "crawls not finished",
}
Row = dict[str, int | str]
PAGE = """\
# Killed beside others

{when:%Y-%m-%d}, {about}. webmill of this day, {versions}.

Made by `make crash-rivals`. Each tool crawls the same {pages} pages on {hosts} hosts of an nginx, is stopped twice
after a random number of requests, and then runs to its end; each time it is started with the command of before, which
is how it resumes a crawl. What counts is nginx's log and what the tool wrote, read by warcio, gzip and json and
compared with the pages byte by byte. The harness is `tests/faults/crash_rivals.py`; what Scrapy and crawlee are told is
in `benchmarks/rivals/`.

*Pages lost*: not in the output when the last run had ended. *Files unreadable*: a gzip file that ends too early, a line
or a file that is not JSON. *Records damaged*: readable, but not the page. *Records twice*: of one page beyond its
first. *Fetched again*: responses with a page that the server had sent before. *Runs with an error*: an exit code other
than 0 though it was not stopped, or no end within {deadline} s. *Stops* are fewer than two for each crawl where a crawl
said that it was finished before the second one.

## kill -9 of all processes

{killed}

## Stopped by one SIGINT

{clean}

## How each was run

| tool | settings | how it resumes |
|---|---|---|
| webmill | `crawl DIR` with delays of 0, WARC files | the same command; a crawl may be killed at any time. \
What was in progress is fetched once more for each kill, and what was written of it since the last sync stays in the \
archive ([crawl](crawl.md#what-it-promises)) |
| Scrapy | `JOBDIR`, a feed of JSON lines, else its defaults | the same command. Its manual promises this for a job \
that was "stopped cleanly", by Ctrl-C or a signal: kill -9 is more than it promises. The seed is fetched in every run |
| crawlee | `FileSystemStorageClient`, `purge_on_start=False`, a dataset; limits of CPU and memory raised | the same \
command, also if the crawl "was unexpectedly terminated" |
| wget --continue | `--recursive --continue`: a file for each page, no WARC | begins at the seed again, asks for every \
page, and is sent what is missing of it |
| wget --warc-file | the same with `--warc-file`, a new name for each run, since it overwrites | WARC output switches \
`--continue` off: every run begins anew |

The same for each part of webmill alone, with thousands of kills: [the crash matrix](crash-matrix.md).
"""


def page(rows: Sequence[Row], *, when: datetime, pages: int, hosts: int, deadline: int) -> str:
    """Return the page of the docs. A row has its signal and tool, and what was counted."""
    return PAGE.format(
        when=when,
        about=rows[0]["about"],
        versions=rows[0]["versions"],
        pages=pages,
        hosts=hosts,
        deadline=deadline,
        killed=table([row for row in rows if row["how"] == "SIGKILL"]),
        clean=table([row for row in rows if row["how"] == "SIGINT"]),
    )


def table(rows: Sequence[Row]) -> str:
    lines = [f"| | {' | '.join(COLUMNS.values())} |", "|---" + "|--:" * len(COLUMNS) + "|"]
    lines += [f"| {row['tool']} | {' | '.join(f'{row[name]:,}' for name in COLUMNS)} |" for row in rows]
    return "\n".join(lines)


def versions(rivals: Path) -> str:
    """Return the versions of the rivals, as they say themselves."""
    program = "from importlib.metadata import version as of; print('Scrapy', of('scrapy') + ', crawlee', of('crawlee'))"
    packages = subprocess.run([rivals, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    wget = subprocess.run(["wget", "--version"], capture_output=True, text=True, check=True).stdout
    return f"{packages}, wget {wget.split()[2]}"
