"""A site that changes while it is watched, and a collection that watches it with the real commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tests.unit.cli.command import webmill
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.manifest import read_version_index
from webmill.publish.shards import read_items
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb
from webmill.testing.exchange import etag_of

HOST = "www.watched.test"
HOME = f"http://{HOST}/"
ALLOW = b"User-agent: *\nAllow: /\n"


def text(words: str) -> str:
    """As much text as an article has."""
    return " ".join([f"{words}, said the miller of the village by the river."] * 8)


class WatchedSite:
    """Pages by path, to be changed at will; the front page links to all of them. `requests` are those it has had."""

    def __init__(self, *paths: str) -> None:
        self.pages = {path: text(f"first words of {path.strip('/')}") for path in paths}
        self.linked: set[str] | None = None  # None: all
        self.replies: dict[str, Answer] = {}
        self.robots = ALLOW
        self.requests: list[str] = []

    def answer(self, request: ReceivedRequest) -> Answer:
        self.requests.append(request.path)
        if request.path in self.replies:
            return self.replies[request.path]
        if request.path == "/robots.txt":
            return HttpReply(body=self.robots, media_type="text/plain")
        if request.path == "/":
            return self._html("Home", "".join(f'<a href="{path}">{path}</a>' for path in self._links()))
        if request.path not in self.pages:
            return HttpReply(status=404, body=b"not here")
        return self._html(request.path.strip("/"), f"<p>{self.pages[request.path]}</p>")

    def _links(self) -> list[str]:
        return sorted(self.pages if self.linked is None else self.linked)

    def _html(self, title: str, body: str) -> HttpReply:
        page = f"<html><head><title>{title}</title></head><body><article>{body}</article></body></html>"
        return HttpReply(body=page.encode(), etag=etag_of(page.encode()))

    def times(self, path: str) -> int:
        return self.requests.count(path)


def watch(root: Path, web: TestWeb, *seeds: str, every: str = "1s", settings: Mapping[str, str] | None = None) -> None:
    """`webmill init`, and the settings that a test needs."""
    ended = webmill("init", root, *(seeds or [HOME]), "--contact", "me@example.org")
    assert ended.code == 0, ended.err
    resolve = [f"{host}={address}:{port}" for host, (address, port) in web.resolve.items() if host.endswith(".test")]
    given = {
        "delay": '"0s"',
        "allow_private": "true",
        "address_delay": '"0s"',
        "page_resources": "false",
        "processes": "1",
        "retry_wait": '"0s"',
        "resolve": json.dumps(resolve),
        "every": f'"{every}"',
        **(settings or {}),
    }
    change_settings(root, given)


def change_settings(root: Path, given: Mapping[str, str]) -> None:
    file = root / "webmill.toml"
    lines = file.read_text()
    for name, value in given.items():
        lines, found = re.subn(
            rf"^(?:# )?{name} = .*$", lambda _, n=name, v=value: f"{n} = {v}", lines, count=1, flags=re.MULTILINE
        )
        assert found, name
    file.write_text(lines)


def published(root: Path) -> set[str]:
    """The paths of the live version, but for the front page."""
    storage = LocalStorage(root)
    items = read_items(storage, read_version_index(storage, history.live_version(storage)))
    return {str(item.metadata["url"]).removeprefix(f"http://{HOST}") for item in items} - {"/"}
