"""Folders that commands are given."""

from __future__ import annotations

from pathlib import Path

import click


def existing(root: Path) -> Path:
    """The same. Where DIR may lie elsewhere: else the argument's type says so, in the same words."""
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise click.BadParameter(f"Directory {str(root)!r} {what}.", param_hint="'DIR'")
    return root
