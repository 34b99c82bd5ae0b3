"""Where the index is can be set once, for all who use it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.unit.cli.command import webmill
from webmill.search.backends import search_address
from webmill.serve.open_site import open_site
from webmill.settings import SearchSettings, Settings


def test_commands_and_server_use_the_index_that_the_settings_name(sample_root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "town", ignore=shutil.ignore_patterns("search")))
    (root / "webmill.toml").write_text('[search]\nurl = "elsewhere/index"\n')
    assert webmill("search", "update", root).code == 0
    assert (root / "elsewhere" / "index" / "meta.json").is_file()
    assert not (root / "search").exists()
    assert json.loads(webmill("search", root, "ferry", "--json").out)["total"] == 1
    rows = (root / "documents" / "town.jsonl").read_text().splitlines()
    (root / "documents" / "town.jsonl").write_text("\n".join(rows[:-1]) + "\n")
    ended = webmill("publish", "documents", root)
    assert "1 removed" in ended.err
    settings = Settings(search=SearchSettings(url="elsewhere/index"))
    site = open_site(root, settings, address="http://127.0.0.1:1", replay_address="http://127.0.0.1:2", secret=b"x")
    engine = site.open_engine()
    assert engine.count() == len(rows) - 1
    engine.close()


def test_an_address_is_taken_as_it_is(tmp_path: Path) -> None:
    url = "meilisearch://key@127.0.0.1:7700/town"
    assert search_address(url, tmp_path) == url
    assert search_address("", tmp_path) == str(tmp_path / "search")
