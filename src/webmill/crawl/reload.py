"""Reading the settings of a crawl again while it runs: what differs, what can be applied, what needs a new run.

Processes with other settings are new processes: each ends in good order, its requests under way may finish, and begins
again. So whatever a setting is for, no part of a process has the old value beside the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from webmill.crawl.options import CrawlOptions
from webmill.settings import Setting, Settings, Values, file_settings

Name = tuple[str, str]

SECTIONS = ("crawl", "http", "watch")  # what a crawl is made from
RUN_ONLY = frozenset(("crawl", key) for key in ("max_time", "max_bytes"))  # the coordinator alone has them
FIXED = frozenset(
    ("crawl", key)
    for key in (
        "seeds",
        "name",
        "frontier",
        "strict",
        "lost_files",
        "backup",
        "processes",
        "shards",
        "nodes",
        "join_wait",
    )
)  # decided when a run begins, or when the crawl did
BEGIN_ANEW = frozenset({("metrics", "port"), ("metrics", "host"), ("log", "format")})
LONGEST_VALUE = 60  # characters


class ReloadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl goes on with. `changes` and `restarts` are sentences for people; `overruled` names settings of the
    file that do not count, since a flag or a variable was given."""

    options: CrawlOptions
    changes: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()
    overruled: tuple[str, ...] = ()
    renews_processes: bool = False

    def describe(self) -> str:
        return join_sentences(self.changes, restarts=self.restarts, overruled=self.overruled)


class SettingsReloader:
    """Reads the settings of a running crawl again. `read` returns them, and the values of the file alone;
    `make_options` refuses what cannot be meant."""

    def __init__(
        self,
        running: Settings,
        *,
        read: Callable[[], tuple[Settings, Values]],
        make_options: Callable[[Settings], CrawlOptions],
    ) -> None:
        self._running, self._read, self._make_options = running, read, make_options

    def reload(self) -> ReloadedSettings:
        """Return the settings that count from now on. Misconfigured: nothing has changed."""
        wanted, in_file = self._read()
        differing = differences(self._running, wanted)
        fixed = [one for one in differing if is_fixed(one)]
        applied = with_values_of(wanted, self._running, fixed)
        options = self._make_options(applied)
        changed = [one for one in differing if not is_fixed(one)]
        reloaded = ReloadedSettings(
            options=options,
            changes=tuple(describe_change(one, self._running, wanted) for one in changed),
            restarts=tuple(one.key for one in fixed),
            overruled=overruled_settings(in_file, wanted),
            renews_processes=any(name_of(one) not in RUN_ONLY for one in changed),
        )
        self._running = applied
        return reloaded


def describe_differences(before: Settings, after: Settings, *, in_file: Values) -> str:
    """Return what changes for nodes, as a line for people. What a node decides alone, each reads itself."""
    changes = tuple(describe_change(one, before, after) for one in differences(before, after))
    return join_sentences(changes, overruled=overruled_settings(in_file, after))


def join_sentences(changes: Sequence[str], *, restarts: Sequence[str] = (), overruled: Sequence[str] = ()) -> str:
    parts = ["; ".join(changes) or "nothing to apply has changed"]
    if restarts:
        parts.append(f"needs a new run: {', '.join(restarts)}")
    if overruled:
        parts.append(f"a flag or a variable counts before the file: {', '.join(overruled)}")
    return "; ".join(parts)


def differences(before: Settings, after: Settings) -> list[Setting]:
    """Return the settings of a crawl that differ."""
    relevant = (one for one in file_settings() if one.section in SECTIONS or name_of(one) in BEGIN_ANEW)
    return [one for one in relevant if value_of(before, one) != value_of(after, one)]


def overruled_settings(in_file: Values, wanted: Settings) -> tuple[str, ...]:
    """Return the settings of the file that do not count, since a flag or a variable was given."""
    relevant = (one for one in file_settings() if one.section in SECTIONS and name_of(one) in in_file)
    return tuple(one.key for one in relevant if in_file[name_of(one)] != value_of(wanted, one))


def with_values_of(settings: Settings, other: Settings, names: Iterable[Setting]) -> Settings:
    """Return the settings with some values of `other`."""
    for one in names:
        section = msgspec.structs.replace(getattr(settings, one.section), **{one.key: value_of(other, one)})
        settings = msgspec.structs.replace(settings, **{one.section: section})
    return settings


def describe_change(one: Setting, before: Settings, after: Settings) -> str:
    """Return what changed: `delay: 70s → 5s`. Lists may be long, or secret: they are named."""
    if one.is_list or one.declared.secret:
        return f"{one.key} changed"
    old, new = one.shown(value_of(before, one)), one.shown(value_of(after, one))
    if len(old) + len(new) > LONGEST_VALUE:
        return f"{one.key} changed"
    return f"{one.key}: {old or '(none)'} → {new or '(none)'}"


def is_fixed(one: Setting) -> bool:
    return name_of(one) in FIXED | BEGIN_ANEW


def name_of(one: Setting) -> Name:
    return (one.section, one.key)


def value_of(settings: Settings, one: Setting) -> object:
    return getattr(getattr(settings, one.section), one.key)
