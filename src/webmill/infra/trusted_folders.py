"""The folders that the user trusts, remembered in the user's own configuration and never in the folder itself.

    $XDG_CONFIG_HOME/webmill/trusted/HASH.json     a file for each folder (by default below ~/.config)

A folder is trusted as long as it is the one that was meant: same path, same owner, same inode, same file system. One
that was moved, replaced or unpacked again is another folder. What lies in the folder says nothing: a configuration
inside of it is not read. WEBMILL_TRUST names folders that are trusted with all below them, for machines without a
configuration (containers, services).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from webmill.errors import Misconfigured, NotFound
from webmill.infra import atomic

VARIABLE = "WEBMILL_TRUST"


class TrustedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a folder. `since` is a date; `why` says who asked for it."""

    path: str
    owner: int
    inode: int
    device: int
    file_system: int
    since: str = ""
    why: str = ""

    def is_same(self, other: TrustedFolder) -> bool:
        """Return whether both are one folder. The number of a device may change with a restart; then the id of the
        file system decides, where it has one."""
        same_disk = self.device == other.device or self.file_system == other.file_system != 0
        return same_disk and (self.path, self.owner, self.inode) == (other.path, other.owner, other.inode)


class TrustedFolders:
    """The trusted folders of a user, as the environment has them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.place = configuration_folder(environment) / "webmill" / "trusted"
        self._listed = [Path(one).resolve() for one in environment.get(VARIABLE, "").split(os.pathsep) if one]

    def is_trusted(self, folder: Path) -> bool:
        """Return whether the user trusts this folder."""
        path = folder.resolve()
        if any(path.is_relative_to(one) for one in self._listed):
            return True
        known = self._find(path)
        try:
            return known is not None and known.is_same(_look_at(path))
        except OSError:
            return False

    def remember(self, folder: Path, *, since: str, why: str) -> None:
        """Trust this folder from now on. Misconfigured: it cannot be remembered."""
        path = folder.resolve()
        if self._is_inside(path):
            raise Misconfigured(
                f"your configuration {self.place} lies in {path}, where others may have written it: set "
                f"{VARIABLE}={path} instead"
            )
        try:
            seen = msgspec.structs.replace(_look_at(path), since=since, why=why)
            for place in (self.place.parent, self.place):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            message = f"{error.filename}: {error.strerror}: {path} cannot be remembered as trusted"
            raise Misconfigured(f"{message}; set {VARIABLE}={path} instead") from error
        atomic.write_bytes(self._file(path), msgspec.json.format(msgspec.json.encode(seen)) + b"\n", mode=atomic.OWNER)

    def forget(self, folder: Path) -> None:
        """Do not trust this folder any more. NotFound: it was not trusted."""
        path = Path(os.path.normpath(folder.absolute()))
        for candidate in dict.fromkeys((path.resolve(), path)):  # it may be gone, or a link by now
            try:
                self._file(candidate).unlink()
                return
            except FileNotFoundError:
                continue
        raise NotFound(f"{folder} is not a trusted folder: `webmill trust --list` shows those that are")

    def folders(self) -> Iterator[tuple[TrustedFolder, bool]]:
        """Yield what is remembered, and whether the folder at that path is still the one that was meant."""
        for file in sorted(self.place.glob("*.json")):
            if known := _read(file):
                yield known, self.is_trusted(Path(known.path))

    def _find(self, path: Path) -> TrustedFolder | None:
        return None if self._is_inside(path) or not self._is_own() else _read(self._file(path))

    def _file(self, path: Path) -> Path:
        return self.place / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json"

    def _is_inside(self, path: Path) -> bool:
        return self.place.resolve().is_relative_to(path)

    def _is_own(self) -> bool:
        """Return whether nobody else can write the configuration."""
        try:
            seen = [place.stat() for place in (self.place.parent, self.place)]
        except OSError:
            return False
        return all(one.st_uid == os.geteuid() and not one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in seen)


def configuration_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's folder for settings, as the XDG Base Directory Specification says."""
    named = Path(environment.get("XDG_CONFIG_HOME", ""))
    if named.is_absolute():
        return named
    home = environment.get("HOME")
    return (Path(home) if home else Path("~").expanduser()) / ".config"


def _look_at(path: Path) -> TrustedFolder:
    seen, disk = path.stat(), os.statvfs(path)
    return TrustedFolder(
        path=str(path), owner=seen.st_uid, inode=seen.st_ino, device=seen.st_dev, file_system=disk.f_fsid
    )


def _read(file: Path) -> TrustedFolder | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=TrustedFolder)
    except (OSError, msgspec.MsgspecError):
        return None
