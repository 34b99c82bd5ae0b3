"""Which crawl of a folder is meant."""

from __future__ import annotations

from pathlib import Path

import click


def crawl_name(root: Path) -> str:
    """The one crawl below crawl-data/; else the folder's own name."""
    crawls = [path.name for path in (root / "crawl-data").glob("[!.]*") if path.is_dir()]
    if len(crawls) > 1:
        raise click.UsageError(f"{root} has several crawls: choose with --name {' | '.join(sorted(crawls))}")
    return crawls[0] if crawls else root.name
