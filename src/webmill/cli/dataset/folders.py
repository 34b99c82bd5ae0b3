"""The folder of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from webmill.pipeline.dataset.folder import FILE_NAME

F = TypeVar("F", bound=Callable[..., Any])
ROOT = Path("datasets")


def datasets_folder_option(command: F) -> F:
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option(
        "--in", "root", type=kind, default=ROOT, show_default=True, help="Folder that holds the datasets."
    )(command)


def dataset_path(name: str, root: Path) -> Path:
    """Return the folder of a dataset: `name` is its path, or a name in `root`."""
    path = Path(name)
    return path.resolve() if (path / FILE_NAME).is_file() else (root / name).resolve()
