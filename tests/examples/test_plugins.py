"""The example plugins, each used as its reader would use it: real commands, a real web, a real chat room."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import webmill
from tests.pipeline.crawling import Linked
from tests.pipeline.test_api import variables
from tests.receivers import webhook
from webmill.serve.app import application
from webmill.serve.open_site import open_site
from webmill.settings import Settings
from webmill.testing import TestWeb
from webmill.testing.exchange import HttpReply

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"
COOKS = "www.cooks.example"
SOUP = """<html><head><title>Soup</title><meta property="og:site_name" content="Cooks"></head><body>
<ul class="ingredients"><li>Leek</li><li>Water</li></ul><p>Cook it.</p></body></html>"""
HOME = '<a href="/out?to=http%3A%2F%2Fwww.cooks.example%2Fsoup">Soup</a> <a href="/out?who=1">nowhere</a>'


class Cooks(Linked):
    """A site with a counter in its links, and pages for those who have the token."""

    def __init__(self) -> None:
        super().__init__(0)
        self.asked = dict[str, str | None]()
        self.soup = SOUP

    def answer(self, request: Any) -> Any:
        self.asked[request.target] = request.headers.get("Authorization")
        if request.path == "/":
            return HttpReply(body=HOME.encode())
        if request.path == "/soup":
            return HttpReply(body=self.soup.encode())
        return super().answer(request)


@pytest.fixture
def cooks() -> Cooks:
    return Cooks()


@pytest.fixture
def place(cooks: Cooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with TestWeb(hosts=0, sites={COOKS: cooks}) as web:
        for name, value in variables(web).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("WEBMILL_HTTP_CONTACT", "me@mill.example")
        monkeypatch.setenv("WEBMILL_WATCH_EVERY", "1s")
        monkeypatch.setenv("WEB", f"http://{COOKS}/")
        yield tmp_path / "news"


def use(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setenv("WEBMILL_PLUGINS", ":".join(str(PLUGINS / f"{name}.py") for name in names))


def command(*arguments: object) -> str:
    line = [sys.executable, "-m", "webmill", *map(str, arguments)]
    done = subprocess.run(line, env={**os.environ}, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_links_lead_past_the_counter(cooks: Cooks, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "redirect_cleaner")
    command("crawl", place, os.environ["WEB"])
    assert "/soup" in cooks.asked
    assert not [target for target in cooks.asked if target.startswith("/out")]
    (plugin,) = json.loads(command("plugins", "--json"))["plugins"]
    (hook,) = plugin["hooks"]
    assert (plugin["name"], hook["hook"], hook["calls"]) == ("redirect_cleaner", "scope", 2)


def test_a_token_is_sent_to_its_site_and_archived_as_stars(
    cooks: Cooks, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, "site_login")
    monkeypatch.setenv("INTRANET_HOST", COOKS)
    monkeypatch.setenv("INTRANET_TOKEN", "secret-of-the-house")
    command("crawl", place, os.environ["WEB"], "--max-pages", 1)
    assert cooks.asked["/"] == "Bearer secret-of-the-house"
    archived = b"".join(gzip.decompress(file.read_bytes()) for file in place.rglob("*.warc.gz"))
    assert b"Authorization" in archived
    assert b"secret-of-the-house" not in archived


def test_documents_have_the_text_and_title_that_a_plugin_gives(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "redirect_cleaner", "recipe_text")
    command("crawl", place, os.environ["WEB"])
    command("extract", place)
    (soup,) = [one for one in webmill.documents(place) if one.url.endswith("/soup")]
    assert (soup.text, soup.title, soup.extractor) == ("Leek\nWater", "Soup (Cooks)", "recipe_text")

    use(monkeypatch, "redirect_cleaner")
    done = subprocess.run(
        [sys.executable, "-m", "webmill", "extract", place], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 1, "documents of other plugins are not mixed with them"
    assert "plugins recipe_text" in done.stderr
    assert "--from-scratch" in done.stderr


def test_a_chat_room_is_told_what_changed(cooks: Cooks, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "redirect_cleaner", "chat_alert")
    with webhook() as chat:
        monkeypatch.setenv("CHAT_URL", chat.address)
        command("init", place, os.environ["WEB"])
        webmill.run(place)
        assert not chat.taken, "the first version is no change"
        cooks.soup = SOUP.replace("Cook it.", "Fry all of it for a long time.").replace("Leek", "Garlic")
        chat.statuses.append(500)
        webmill.run(place)
        assert len(chat.refused) == 1
        command("alerts", "retry", place)
    assert [one.json for one in chat.taken] == [{"text": "changed: Soup"}], "a room that failed is told again"


def test_a_page_a_command_and_a_filter_of_a_plugin(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "redirect_cleaner", "hosts_page")
    webmill.crawl(place, [os.environ["WEB"]])
    webmill.extract(place)
    assert command("hosts", place) == f"2\t{COOKS}\n"
    assert "Count the documents of each host." in command("--help")

    site = open_site(place, Settings(), address="http://testserver", replay_address="http://replay", secret=b"0" * 32)
    with TestClient(application(site)) as client:
        assert "/plugins/hosts_page/hosts" in client.get("/plugins").text
        page = client.get("/plugins/hosts_page/hosts")
        assert f"<td>{COOKS}</td><td>2</td>" in page.text
        assert 'href="/plugins" aria-current="true"' in page.text
        assert client.get("/plugins/hosts_page/none").status_code == 404

    steps = [{"use": "function", "function": "plugin:secure"}]
    report = webmill.curate(place, steps).report
    assert report is not None
    assert (report.documents, report.kept) == (2, 0), "none of them is https"


def test_a_plugin_in_a_collection_is_not_run(place: Path, tmp_path: Path) -> None:
    command("init", place, os.environ["WEB"])
    for folder in (place, place / "plugins", place / ".webmill" / "plugins", place / "webmill" / "plugins"):
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    command("run", place)
    assert not (tmp_path / "ran").exists()
