"""Real robots.txt files: we and protego agree on paths made from their own rules.

Where protego does not follow the RFC, it gets its input prepared, so that all answers can be compared:
- It has no limit of size: it is given what we read.
- It ends a list of agents at any line it does not know and at Crawl-delay. RFC 9309, 2.2.4: such lines must not
  interfere (hootsuite.com: `User-agent: Googlebot`, Noindex lines, `User-agent: *`, rules: they are for both). It is
  given the lines that the RFC defines, and no others.
- It never takes the delay of `*` for an agent that has a group without one; we do (kapitalbank.az). Compared only for
  an agent that has no group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from protego import Protego

from tests.conftest import SHARED_DATA
from webmill.formats.site.robots import MAX_BODY, parse_robots

AGENTS = ("webmill", "Googlebot", "bingbot", "GPTBot")
DEFINED = re.compile(r"\s*(?:user[- ]?agent|allow|diss?all?ow|diasllow|disallaw)\b", re.IGNORECASE)
PATTERN = re.compile(r"^\s*(?:dis)?allow\s*:\s*([/*][^\s#]*)", re.IGNORECASE | re.MULTILINE)
FOLDER = SHARED_DATA / "robots"
NAMES = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else []
RULES_PER_FILE = 40  # evenly spread over the file


def read_text(path: Path) -> str:
    body = path.read_bytes()
    if len(body) > MAX_BODY:
        body = body[: body.rfind(b"\n", 0, MAX_BODY) + 1]
    return body.decode("utf-8", "replace")


def paths_of(text: str) -> Iterator[str]:
    yield from ("/", "/robots.txt", "/index.html", "/a/b?c=d", "/a%20b/%7Ec")
    found = PATTERN.findall(text)
    for pattern in found[:: max(1, len(found) // RULES_PER_FILE)]:
        path = pattern.replace("*", "xyz").removesuffix("$")
        if path.startswith("/") and path.isascii():
            yield from (path, f"{path}x", f"{path}/y.html", path[:-1] or "/", f"{path}?a=1")


@pytest.mark.parametrize("name", NAMES)
def test_real_files_are_understood_as_by_protego(name: str) -> None:
    text = read_text(FOLDER / name)
    ours = parse_robots((FOLDER / name).read_bytes())
    judge = Protego.parse("\n".join(line for line in text.splitlines() if DEFINED.match(line)))
    paths = list(paths_of(text))
    for agent in AGENTS:
        rules = ours.for_agent(agent)
        assert [path for path in paths if rules.allows(path) is not judge.can_fetch(f"http://a{path}", agent)] == []


@pytest.mark.parametrize("name", NAMES)
def test_delays_and_sitemaps_of_real_files_are_those_of_protego(name: str) -> None:
    ours, judge = parse_robots((FOLDER / name).read_bytes()), Protego.parse(read_text(FOLDER / name))
    assert ours.for_agent("webmill").crawl_delay == judge.crawl_delay("webmill")
    assert list(ours.sitemaps) == list(dict.fromkeys(judge.sitemaps))
    assert ours.cut is ((FOLDER / name).stat().st_size > MAX_BODY)
