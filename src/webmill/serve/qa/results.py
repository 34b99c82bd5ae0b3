"""What was found of each page, in `DIR/.webmill/qa/`: a JSON file and two small pictures. Written as each is done."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from webmill.collection import STATE_FOLDER
from webmill.infra import atomic

FOLDER = "qa"
MOST_LISTED = 100  # missing resources, errors and leaks of one page
TEXT, PICTURE, RESOURCES = 0.5, 0.25, 0.25  # what counts how much in a score
ERROR_COST = 0.02  # of a script error that only the replay has
MOST_ERROR_COST = 0.2


class PageQuality(msgspec.Struct, frozen=True, kw_only=True):
    """One page as the browser shows it from the archive alone (`fed`), and as the replay server does."""

    url: str
    timestamp: str
    score: int = 0  # 0 to 100
    text: float = 0.0  # likeness of the two
    picture: float | None = None
    captured_text: float | None = None  # likeness to what the browser of the capture read
    captured_picture: float | None = None  # likeness to what it saw
    resources: int = 0  # that the page asked for
    missing: tuple[str, ...] = ()  # of those, not in the archive
    errors: tuple[str, ...] = ()  # of scripts, in the replay alone
    leaks: tuple[str, ...] = ()  # addresses outside the archive that the replay asked for
    failure: str = ""  # why the page could not be shown

    @property
    def key(self) -> str:
        return page_key(self.url, self.timestamp)


def page_key(url: str, timestamp: str) -> str:
    return hashlib.sha256(f"{timestamp} {url}".encode("utf-8", "replace")).hexdigest()[:32]


def scored(found: PageQuality) -> PageQuality:
    """Return the page with its score: 0 if something left the archive, or the page could not be shown."""
    if found.leaks or found.failure:
        return msgspec.structs.replace(found, score=0)
    text = min(found.text, found.captured_text if found.captured_text is not None else 1.0)
    pictures = [one for one in (found.picture, found.captured_picture) if one is not None]
    picture = min(pictures, default=found.text)
    there = 1 - len(found.missing) / found.resources if found.resources else 1.0
    cost = min(MOST_ERROR_COST, ERROR_COST * len(found.errors))
    share = TEXT * text + PICTURE * picture + RESOURCES * max(0.0, there) - cost
    return msgspec.structs.replace(found, score=max(0, min(100, round(100 * share))))


def results_folder(root: Path) -> Path:
    return root / STATE_FOLDER / FOLDER


def write_result(root: Path, found: PageQuality, pictures: dict[str, bytes]) -> None:
    """Write the pictures, then the result: what has one is done."""
    folder = results_folder(root)
    atomic.make_folder(folder)
    for name, picture in pictures.items():
        if picture:
            atomic.write_bytes(folder / f"{found.key}-{name}.png", picture)
    atomic.write_bytes(folder / f"{found.key}.json", msgspec.json.encode(found))


def read_results(root: Path) -> list[PageQuality]:
    """Return all results, the worst first. What cannot be read is left out; the next run makes it anew."""
    found: list[PageQuality] = []
    for file in results_folder(root).glob("*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(file.read_bytes(), type=PageQuality))
    return sorted(found, key=lambda one: (one.score, one.url, one.timestamp))


def read_result(root: Path, url: str, timestamp: str) -> PageQuality | None:
    try:
        data = (results_folder(root) / f"{page_key(url, timestamp)}.json").read_bytes()
        return msgspec.json.decode(data, type=PageQuality)
    except (OSError, msgspec.MsgspecError):
        return None


def forget_older_results(root: Path) -> None:
    """Remove the results of captures of which a newer one of the same URL has been checked."""
    newest: dict[str, PageQuality] = {}
    for found in read_results(root):
        known = newest.setdefault(found.url, found)
        if known is found:
            continue
        older, newest[found.url] = sorted((known, found), key=lambda one: one.timestamp)
        for file in results_folder(root).glob(f"{older.key}*"):
            file.unlink(missing_ok=True)


def missing_by_host(results: Iterable[PageQuality]) -> list[tuple[str, int]]:
    """Return how many missing resources are of which host, the most first."""
    urls = {url for one in results for url in one.missing}
    return Counter(urlsplit(url).hostname or url for url in urls).most_common()
