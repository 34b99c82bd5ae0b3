"""What every command uses: verbosity, settings, progress, and notes on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webmill.masking import hide_secrets

if TYPE_CHECKING:  # `webmill --help` must not pay for these
    from webmill.cli.progress import Progress
    from webmill.settings import Settings, Sources

REJECTED = 3


@dataclass(frozen=True)
class Context:
    """The global flags of a command."""

    quiet: bool
    verbosity: int
    config: Path | None
    flags: dict[str, str]

    @classmethod
    def from_flags(cls, *, verbose: int, quiet: bool, log_format: str | None, config: Path | None) -> Context:
        from webmill.infra.log import configure

        flags = {"log.format": log_format} if log_format else {}
        configure(verbosity=-1 if quiet else verbose, form=log_format or os.environ.get("WEBMILL_LOG_FORMAT", "text"))
        return cls(quiet=quiet, verbosity=verbose, config=config, flags=flags)

    def settings(self, collection: Path | None = None) -> Settings:
        """Return the settings: from the file, then WEBMILL_* variables, then flags; the later wins."""
        return self.sources(collection).settings()

    def sources(self, place: Path | str | None, flags: Mapping[tuple[str, str], Any] | None = None) -> Sources:
        """Read the sources of settings: the collection at `place`, if it exists, the environment and the flags."""
        from webmill.pipeline.trust import is_trusted, refuse_outside_links
        from webmill.settings import read_sources

        folder = Path(place).resolve() if place else None
        if folder:
            refuse_outside_links(folder)
        global_flags = {tuple(name.split(".")): value for name, value in self.flags.items()}
        found = read_sources(
            self.config,
            collection=folder if folder and folder.is_dir() else None,
            environment=os.environ,
            is_trusted=is_trusted,
            flags={**global_flags, **(flags or {})},  # type: ignore[dict-item]
        )
        for notice in found.notices:
            note_once(notice)
        return found

    def progress(self, title: str, *, total: int | None = None, unit: str) -> Progress:
        from webmill.cli.progress import Progress

        return Progress(title, total=total, unit=unit, quiet=self.quiet, stream=sys.stderr)


pass_context: Callable[..., Callable[..., None]] = click.make_pass_decorator(Context)


def note(message: str) -> None:
    """Print a line on stderr, unless --quiet is given. Passwords in addresses are not shown."""
    context = click.get_current_context(silent=True)
    settings = context.find_object(Context) if context else None
    if not (settings and settings.quiet):
        click.echo(hide_secrets(message), err=True)


_noted: set[str] = set()


def note_once(message: str) -> None:
    """Print a note, but only once per process: settings are read several times."""
    if message not in _noted:
        _noted.add(message)
        note(message)


_is_stage: ContextVar[bool] = ContextVar("is_stage", default=False)


@contextmanager
def without_hints() -> Iterator[None]:
    """Suppress hints inside: a stage of `webmill run` does not say what to type next."""
    before = _is_stage.set(True)
    try:
        yield
    finally:
        _is_stage.reset(before)


def hint(message: str) -> None:
    """Print what to type next."""
    if not _is_stage.get():
        note(message)


def warn(message: str) -> None:
    """Print a problem that does not end the command, also with --quiet. Passwords in addresses are not shown."""
    click.echo(hide_secrets(message), err=True)


def finish(*, rejected: int, where: str) -> None:
    """Exit with code 3 if some input was rejected; `where` says where to look."""
    if rejected:
        warn(f"{rejected:,} rejected: {where}")
        raise click.exceptions.Exit(REJECTED)
