"""Options that the search commands share."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.options import settings_options
from webmill.infra.address import scheme_of


class IndexAddress(click.ParamType[str]):
    """The address of an index; a path is relative to the current folder."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        scheme, path = scheme_of(value)
        return str(Path(path).resolve()) if scheme == "file" else value


class ModelPath(click.ParamType[str]):
    """The folder of a model, relative to the current folder."""

    name = "dir"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        return str(Path(value).resolve())


search_options = settings_options("search", types={"index": IndexAddress(), "model": ModelPath()})
