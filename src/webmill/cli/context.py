"""What every command receives: how loud to be, and the settings when it asks for them."""

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

if TYPE_CHECKING:  # `webmill --help` must not pay for these
    from webmill.cli.progress import Progress
    from webmill.settings import Settings, Sources

REJECTED = 3


@dataclass(frozen=True)
class Context:
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
        """File, then WEBMILL_* variables, then flags: the later wins."""
        return self.sources(collection).settings()

    def sources(self, place: Path | str | None, flags: Mapping[tuple[str, str], Any] | None = None) -> Sources:
        """Read what was said about settings: for the collection at `place`, if it is there, and on the command line."""
        from webmill.infra.address import hide_secrets
        from webmill.settings import read_sources

        folder = Path(place).resolve() if place else None
        own = {tuple(name.split(".")): value for name, value in self.flags.items()}
        found = read_sources(
            self.config,
            collection=folder if folder and folder.is_dir() else None,
            environment=os.environ,
            flags={**own, **(flags or {})},  # type: ignore[dict-item]
        )
        for notice in found.notices:
            note_once(hide_secrets(notice))
        return found

    def progress(self, title: str, *, total: int | None = None, unit: str) -> Progress:
        from webmill.cli.progress import Progress

        return Progress(title, total=total, unit=unit, quiet=self.quiet, stream=sys.stderr)


pass_context: Callable[..., Callable[..., None]] = click.make_pass_decorator(Context)


def note(message: str) -> None:
    """A line for the person, not for the pipe; not for one who wants quiet."""
    context = click.get_current_context(silent=True)
    settings = context.find_object(Context) if context else None
    if not (settings and settings.quiet):
        click.echo(message, err=True)


_told: set[str] = set()


def note_once(message: str) -> None:
    """A note that would be the same each time the settings are read."""
    if message not in _told:
        _told.add(message)
        note(message)


_is_stage: ContextVar[bool] = ContextVar("is_stage", default=False)


@contextmanager
def without_hints() -> Iterator[None]:
    """Around a command that is one of several: what to do next is then not for it to say."""
    before = _is_stage.set(True)
    try:
        yield
    finally:
        _is_stage.reset(before)


def hint(message: str) -> None:
    """A note of what to type next."""
    if not _is_stage.get():
        note(message)


def warn(message: str) -> None:
    """What went wrong without ending the command: for one who wants quiet, too."""
    click.echo(message, err=True)


def finish(*, rejected: int, where: str) -> None:
    """Ends a command that did its work: exit code 3 when some input was refused."""
    if rejected:
        warn(f"{rejected:,} rejected: {where}")
        raise click.exceptions.Exit(REJECTED)
