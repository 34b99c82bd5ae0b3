"""The page about what webmill installs beside itself: licences from the installed packages' own metadata, versions from
the requirements files, and whether advisories are known (requirements/advisories.json)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requirements.advisories import Entry, open_advisories, pins_of, read_entries

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
SYSTEMS = (("linux", "Linux", "x86_64"), ("darwin", "Darwin", "arm64"))
PYTHONS = ("3.11", "3.12", "3.13")
# What metadata says in other words than SPDX's.
SPDX = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache2": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "The BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD",
    "MIT License": "MIT",
}
BSD = ("0BSD", "BSD", "BSD-2-Clause", "BSD-3-Clause")
PERMISSIVE = frozenset(
    (*BSD, "Apache-2.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "PSF-2.0", "Zlib", "any-OSI")
)
# Copyleft that ends at the package's own files: each that we take has its reason. Everything else is refused.
WEAK = frozenset(("LGPL-3.0-only", "MPL-1.1", "MPL-2.0"))
ACCEPTED = {
    "certifi": "a file of certificates, used as it is",
    "psycopg": "only with the extra `postgres`; imported as it is and not distributed by us",
    "psycopg-binary": "only with the extra `postgres`; imported as it is and not distributed by us",
    "tld": "only with the extra `text`, by courlan; taken under MPL-1.1, used as it is",
    "tqdm": "only with the extra `text`, by fastwarc; used as it is",
}


class Dependency(NamedTuple):
    name: str
    licence: str
    needed_by: str
    extra: str  # empty: always installed


def dependencies() -> list[Dependency]:
    """Return the run-time dependencies on Linux and macOS, those of the extras after those that are always there."""
    found: dict[str, Dependency] = {}
    for extra in ("", *sorted(distribution("webmill").metadata.get_all("Provides-Extra") or ())):
        for name, needed_by in _walk("webmill", extra):
            if name not in found and name != "webmill":
                found[name] = Dependency(name, licence_of(distribution(name).metadata), needed_by, extra)
    return sorted(found.values(), key=lambda one: (one.extra, one.name))


def _walk(package: str, extra: str) -> Iterator[tuple[str, str]]:
    seen, waiting = set[tuple[str, str]](), [(package, extra)]
    while waiting:
        place = waiting.pop()
        for requirement in map(Requirement, distribution(place[0]).requires or ()):
            name = canonicalize_name(requirement.name)
            wanted = {(name, one) for one in ("", *requirement.extras)} - seen
            if wanted and _applies(requirement, extra=place[1]):
                seen |= wanted
                waiting += sorted(wanted)
                yield name, place[0]


def _applies(requirement: Requirement, *, extra: str) -> bool:
    """Return whether a requirement counts on one of our systems and Pythons, so that the page is the same on all."""
    return requirement.marker is None or any(
        requirement.marker.evaluate({**environment, "extra": extra}) for environment in _environments()
    )


def _environments() -> Iterator[dict[str, str]]:
    for platform, system, machine in SYSTEMS:
        for python in PYTHONS:
            yield {
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "os_name": "posix",
                "sys_platform": platform,
                "platform_system": system,
                "platform_machine": machine,
                "python_version": python,
                "python_full_version": f"{python}.9",
            }


def licence_of(metadata: PackageMetadata) -> str:
    """Return the licence as an expression of SPDX, as far as the metadata gives one."""
    expression, field = metadata.get("License-Expression"), (metadata.get("License") or "").strip()
    if expression:
        return expression
    if field and len(field) < 40 and field != "Dual License":
        return SPDX.get(field, field)
    classifiers = metadata.get_all("Classifier") or ()
    names = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    return " OR ".join(SPDX.get(name, name) for name in names) or "unknown"


def objection(dependency: Dependency) -> str:
    """Return why a dependency cannot be taken; empty if it can."""
    allowed = PERMISSIVE | WEAK if dependency.name in ACCEPTED else PERMISSIVE
    for choice in re.split(r"\s+OR\s+", dependency.licence):
        if all(term.strip("() ") in allowed for term in re.split(r"\s+AND\s+", choice)):
            return ""
    return f"{dependency.name}: {dependency.licence} is not a permissive licence"


def dependencies_page() -> str:
    found, entries = dependencies(), read_entries(REQUIREMENTS / "advisories.json")
    always = [one for one in found if not one.extra]
    optional = [one for one in found if one.extra]
    return PAGE.format(
        count=len(found),
        always=_table(always, extra=False),
        optional=_table(optional, extra=True),
        accepted="\n".join(f"- {name}: {reason}" for name, reason in sorted(ACCEPTED.items())),
        advisories=_advisories(entries, {one.name for one in found}),
    )


def _table(rows: list[Dependency], *, extra: bool) -> str:
    head = "| package | version | licence | needed by |" + (" extra |" if extra else "")
    lines = [head, "|---|---|---|---|" + ("---|" if extra else "")]
    versions = _versions()
    for row in rows:
        cells = [row.name, versions[row.name], row.licence, row.needed_by, *([f"`{row.extra}`"] if extra else [])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _versions() -> dict[str, str]:
    """Return the pinned versions by name; some packages have one for each Python."""
    text = "".join((REQUIREMENTS / name).read_text() for name in ("run.txt", "dev.txt"))
    versions: dict[str, list[str]] = {}
    for name, version in sorted(set(re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE))):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return {name: ", ".join(ones) for name, ones in versions.items()}


def _advisories(entries: dict[str, Entry], runtime: set[str]) -> str:
    pins = [str(pin) for pin in pins_of(REQUIREMENTS)]
    days = sorted(day for pin in pins if (day := entries[pin]["answered"]))
    silent = [pin for pin in pins if not entries[pin]["answered"]]
    versions = _versions()
    ours = [
        f"{name} {version}"
        for name, version in (pin.split("==") for pin in silent)
        if name in runtime and version in versions[name].split(", ")
    ]
    known = open_advisories(entries)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    lines = [f"{len(days)} of {len(pins)} pinned versions were answered for, {when}."]
    lines += [f"Known advisories: {'; '.join(known) or 'none'}."]
    if silent:
        names = f", of these at run time: {', '.join(ours)}" if ours else ""
        lines.append(f"The index that was asked has no answer for {len(silent)} versions{names}.")
    return "\n".join(lines)


PAGE = """\
# Dependencies

The {count} packages that webmill and its extras install, on Linux and macOS, with the licences that they state. A test
refuses licences that are not permissive, and reads this list from the installed packages. Why each direct one:
[decision 2](../decisions/0002-dependencies.md).

## Always installed

{always}

## With extras

{optional}

## Weak copyleft

GPL and AGPL are refused. These are under licences whose copyleft ends at their own files (MPL) or library (LGPL):

{accepted}

## Advisories

`make lock` asks the package index for the advisories of every pinned version, also of what only tests and benchmarks
use, and keeps the answers in `requirements/advisories.json`; where it cannot ask, it says so and keeps the file. Tests
read the file: they fail for a known advisory, and for a version that was pinned without asking.

{advisories}
"""
