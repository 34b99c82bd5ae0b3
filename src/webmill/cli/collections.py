"""Which crawls of a folder are meant."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.collection import Collection, archived_crawls
from webmill.errors import NotFound
from webmill.index.archives import find_archives


def existing(root: Path) -> Path:
    """The same. Where DIR may lie elsewhere: else the argument's type says so, in the same words."""
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise click.BadParameter(f"Directory {str(root)!r} {what}.", param_hint="'DIR'")
    return root


def crawl_name(root: Path) -> str:
    """The one crawl below crawl-data/; else the folder's own name."""
    crawls = [crawl.name for crawl in archived_crawls(root)]
    if len(crawls) > 1:
        raise click.UsageError(f"{root} has several crawls: choose with --name {' | '.join(crawls)}")
    return crawls[0] if crawls else root.name


def crawls_in(root: Path) -> list[Collection]:
    """All of them. Archives may lie anywhere: a folder without crawls is one crawl by its own name."""
    crawls = archived_crawls(root)
    if not root.name and not crawls:
        raise NotFound(f"{root} is no collection")
    return crawls or [Collection(root, root.name)]


def archived(root: Path) -> list[Collection]:
    """Those with archives."""
    return [crawl for crawl in crawls_in(root) if any(find_archives(crawl, refuse=lambda *_: None))]
