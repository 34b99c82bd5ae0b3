"""Where plugins come from, and which there are. Nothing is loaded here.

    packages      entry points of the group `webmill.plugins`: NAME = "module"
    own files     $XDG_CONFIG_HOME/webmill/plugins/*.py (by default below ~/.config)
    WEBMILL_PLUGINS   more files, separated by `:`; `off` for no plugins at all

A file is code that runs with the user's rights, so it counts only if nobody else can have written it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from webmill.errors import Misconfigured
from webmill.infra.registry import entry_points_of
from webmill.infra.trusted_folders import configuration_folder

GROUP, VARIABLE, OFF = "webmill.plugins", "WEBMILL_PLUGINS", "off"
DIGEST_CHARS = 16


class PluginSource(msgspec.Struct, frozen=True):
    """A plugin that can be loaded. `place` is a path, or a module of an installed package; `version` changes with its
    code: the digest of the file, or the version of the package."""

    name: str
    place: str
    version: str

    @property
    def is_file(self) -> bool:
        return self.place.endswith(".py")


def plugin_folder(environment: Mapping[str, str]) -> Path:
    return configuration_folder(environment) / "webmill" / "plugins"


def find_plugins(environment: Mapping[str, str]) -> tuple[PluginSource, ...]:
    """Return the plugins of this user, packages first. Misconfigured: a file that others may have written, or two
    plugins of one name."""
    named = environment.get(VARIABLE, "")
    if named == OFF:
        return ()
    found = [*_packages(), *map(_file, _own_files(environment)), *(_file(Path(one)) for one in named.split(":") if one)]
    for number, one in enumerate(found):
        if any(one.name == other.name for other in found[:number]):
            raise Misconfigured(f"two plugins are called {one.name}: rename {one.place}")
    return tuple(found)


def _packages() -> Iterator[PluginSource]:
    for name, point in sorted(entry_points_of(GROUP, tuple(sys.path)).items()):
        yield PluginSource(name, point.value, point.dist.version if point.dist else "")


def _own_files(environment: Mapping[str, str]) -> list[Path]:
    folder = plugin_folder(environment)
    try:
        _refuse_foreign(folder, folder.stat())
    except FileNotFoundError:
        return []
    return sorted(folder.glob("*.py"))


def _file(path: Path) -> PluginSource:
    try:
        _refuse_foreign(path, path.stat())
        code = path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"the plugin {path}: {error.strerror}") from None
    return PluginSource(path.stem, str(path.resolve()), hashlib.sha256(code).hexdigest()[:DIGEST_CHARS])


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Misconfigured(
            f"{path} can be written by others, and plugins are code: make it yours alone (chmod go-w), "
            f"or set {VARIABLE}={OFF}"
        )
