"""Ask the package index for the security advisories of every pinned version, and keep the answers in advisories.json.

`make lock` runs it after compiling. Tests read the file alone, so they need no network. Where the index does not
answer, the answers of before stay as they are and a line says so; a pin that was never answered for has no date.

    "urllib3==2.8.0": {"answered": "2026-11-18", "advisories": []}
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypedDict
from urllib.parse import urlsplit

HERE = Path(__file__).parent
FILE = HERE / "advisories.json"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
PARALLEL, TIMEOUT = 8, 30
# Advisories that we live with, by their identifier, each with the reason. A test refuses those that no pin has.
ACCEPTED: dict[str, str] = {}


class Advisory(TypedDict):
    id: str
    aliases: list[str]
    fixed_in: list[str]


class Entry(TypedDict):
    answered: str | None  # the day; None: the index never answered for this version
    advisories: list[Advisory]


class Pin(NamedTuple):
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def pins_of(folder: Path) -> list[Pin]:
    """Return what the requirements files of a folder pin, each once, sorted."""
    return sorted({Pin(*found) for file in folder.glob("*.txt") for found in PIN.findall(file.read_text())})


def read_entries(file: Path) -> dict[str, Entry]:
    return json.loads(file.read_text()) if file.exists() else {}


def ask(pin: Pin, *, index: str) -> list[Advisory] | None:
    """Return the advisories of a pinned version, or None if the index does not answer for it.

    Some mirrors have no page for a version. The page of the project is about its newest version, and does for that.
    """
    for path in (f"{pin.name}/{pin.version}/json", f"{pin.name}/json"):
        try:
            with urllib.request.urlopen(f"{index}/{path}", timeout=TIMEOUT) as reply:  # noqa: S310 (the user's own index)
                page = json.load(reply)
            if page["info"]["version"] == pin.version:
                return advisories_of(page)
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return None


def advisories_of(page: dict[str, list[dict[str, object]]]) -> list[Advisory]:
    """Return the advisories of one page of the index, without those that were withdrawn."""
    names = ("id", "aliases", "fixed_in")
    kept = [one for one in page["vulnerabilities"] if not one.get("withdrawn")]
    return sorted(({name: one[name] for name in names} for one in kept), key=lambda one: str(one["id"]))  # type: ignore[return-value]


def refresh(file: Path, *, pins: list[Pin], index: str, today: date) -> list[str]:
    """Write what the index answers for the pins, and return what there is to tell. Answers of before are kept where
    there is no new one; if there is no answer at all, the file stays as it is."""
    with ThreadPoolExecutor(PARALLEL) as threads:
        answers = dict(zip(pins, threads.map(partial(ask, index=index), pins), strict=True))
    silent = [pin for pin, answer in answers.items() if answer is None]
    if len(silent) == len(pins):
        return [f"the package index answers for none of {len(pins)} pins: {file.name} is kept as it is"]
    before, never = read_entries(file), Entry(answered=None, advisories=[])
    entries = {
        str(pin): before.get(str(pin), never) if answer is None else Entry(answered=f"{today}", advisories=answer)
        for pin, answer in answers.items()
    }
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return [f"{len(pins) - len(silent)} of {len(pins)} pins answered for", *(f"no answer for {pin}" for pin in silent)]


def open_advisories(entries: dict[str, Entry]) -> list[str]:
    """Return a line for each advisory of the pins that is not accepted."""
    return [
        f"{pin}: {one['id']} ({', '.join(one['aliases'])}), fixed in {', '.join(one['fixed_in']) or 'no version'}"
        for pin, entry in entries.items()
        for one in entry["advisories"]
        if one["id"] not in ACCEPTED
    ]


def configured_index() -> str:
    """Return the address of the JSON pages of the index that uv or pip is told to use; pip knows the usual one."""
    simple = next(filter(None, map(os.environ.get, ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"))), "")
    if not simple:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        simple = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if not simple:
        from pip._internal.models.index import PyPI

        return str(PyPI.pypi_url)
    parts = urlsplit(simple)
    return parts._replace(path=parts.path.rstrip("/").removesuffix("/simple") + "/pypi").geturl()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", help="address of the JSON pages (default: of the index that uv or pip uses)")
    parser.add_argument("--folder", type=Path, default=HERE, help="of the requirements files and advisories.json")
    given = parser.parse_args()
    file = given.folder / FILE.name
    today = datetime.now(UTC).date()
    told = refresh(file, pins=pins_of(given.folder), index=given.index or configured_index(), today=today)
    print("\n".join(told), file=sys.stderr)
    found = open_advisories(read_entries(file))
    if found:
        sys.exit("advisories for pinned versions:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
