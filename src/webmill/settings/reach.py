"""How far a setting reaches: whether it counts in a settings file that may be somebody else's (docs/design/trust.md).

Each setting declares its reach:

    inside   whatever its value, it concerns this collection alone
    path     a path; one that leads out of the folder reaches outside
    address  a path or an address; another machine, or a path that leads out of the folder, reaches outside
    lower    a number that protects others or this machine; below its default it reaches outside
    tables   a list of tables, of which each knows itself whether it reaches outside
    other    another host, file or safety switch: every value but the default reaches outside
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

Reach = Literal["inside", "path", "address", "lower", "tables", "other"]

LONGEST_AUTO = 30.0  # seconds that `delay = "auto"` waits at most where few domains wait
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_LOCAL = ("file", "sqlite", "memory")


def reaches_outside(reach: Reach, value: Any, default: Any, *, folder: Path) -> bool:
    """Return whether a value in the settings of `folder` reaches out of it."""
    if reach == "inside" or value == default:
        return False
    if reach in ("path", "address"):
        return leads_out(str(value), folder)
    if reach == "tables":
        return any(one.reaches_outside(folder=folder) for one in value)
    least = LONGEST_AUTO if default is None else default
    return not (reach == "lower" and value is not None and value >= least)


def leads_out(place: str, folder: Path) -> bool:
    """Return whether a path or address is not in `folder`. A name in it that is a link to elsewhere leads out."""
    scheme = _SCHEME.match(place)
    if scheme and scheme[1].lower() not in _LOCAL:
        return True
    path = place[scheme.end() :].removeprefix("//") if scheme else place
    return not (folder / path).resolve().is_relative_to(folder.resolve())


def describe_reach(reach: Reach) -> str:
    """Return what a setting that reaches outside does, for a sentence."""
    return "leads out of this folder" if reach in ("path", "address") else "changes what protects you and others"
