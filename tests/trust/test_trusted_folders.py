"""`webmill trust`: who is trusted, by what it is known, and that the user's own folders never ask."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.unit.cli.command import webmill
from webmill.infra.trusted_folders import TrustedFolders
from webmill.pipeline.trust import is_trusted
from webmill.settings import all_settings

REACHING = '[search]\nurl = "../elsewhere"\n'


def collection(folder: Path) -> Path:
    folder.mkdir()
    (folder / "webmill.toml").write_text(REACHING)
    return folder


def test_a_folder_is_trusted_when_the_user_says_so_and_until_he_takes_it_back(tmp_path: Path) -> None:
    root = collection(tmp_path / "news")
    assert "webmill trust" in webmill("search", root, "word").err
    reported = webmill("trust", root)
    assert reported.code == 0
    assert "webmill.toml: [search] url = ../elsewhere" in reported.err, "what is agreed to is shown"
    assert "webmill trust" not in webmill("search", root, "word").err
    assert str(root) in webmill("trust", "--list").out.decode()
    assert webmill("trust", "--revoke", root).code == 0
    assert "webmill trust" in webmill("search", root, "word").err
    assert webmill("trust", "--revoke", root).code == 1


def test_another_folder_at_the_same_path_is_not_trusted(tmp_path: Path) -> None:
    root = collection(tmp_path / "news")
    webmill("trust", root)
    assert is_trusted(root)
    root.rename(tmp_path / "moved")
    assert not is_trusted(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", root)
    assert not is_trusted(root)
    assert "another folder, or none" in webmill("trust", "--list").out.decode()


def test_another_owner_at_the_same_path_is_not_trusted(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    root = collection(tmp_path / "news")
    webmill("trust", root)
    os.chown(root, 12345, 12345)
    assert not is_trusted(root)


def test_a_link_is_as_trusted_as_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    root = collection(tmp_path / "news")
    webmill("trust", root)
    (tmp_path / "link").symlink_to(root)
    assert is_trusted(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(collection(tmp_path / "other"))
    assert not is_trusted(tmp_path / "link")


def test_a_mark_in_the_folder_means_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the collection is the home folder, as in a container, its files are not the user's configuration."""
    root = collection(tmp_path / "news")
    webmill("trust", root)
    shutil.copytree(tmp_path / "configuration", root / ".config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / ".config"))
    assert not is_trusted(root)
    reported = webmill("trust", root)
    assert reported.code == 1
    assert f"WEBMILL_TRUST={root}" in reported.err
    monkeypatch.setenv("WEBMILL_TRUST", str(root))
    assert is_trusted(root)


def test_a_configuration_that_others_can_write_is_not_believed(tmp_path: Path, configuration: Path) -> None:
    root = collection(tmp_path / "news")
    webmill("trust", root)
    (configuration / "webmill" / "trusted").chmod(0o777)
    assert not is_trusted(root)


def test_what_is_remembered_can_be_read_by_the_user_alone(tmp_path: Path, configuration: Path) -> None:
    webmill("trust", collection(tmp_path / "news"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (configuration / "webmill").rglob("*")}
    assert modes == {0o700, 0o600}


def test_a_disk_may_get_another_number_at_a_restart(tmp_path: Path) -> None:
    trusted = TrustedFolders({"HOME": str(tmp_path)})
    root = collection(tmp_path / "news")
    trusted.remember(root, since="2026-11-18", why="test")
    file = next(trusted.place.glob("*.json"))
    device, disk = root.stat().st_dev, os.statvfs(root).f_fsid
    file.write_text(file.read_text().replace(f'"device": {device}', f'"device": {device + 1}'))
    assert trusted.is_trusted(root) is (disk != 0)
    file.write_text(file.read_text().replace(f'"file_system": {disk}', f'"file_system": {disk + 1}'))
    assert not trusted.is_trusted(root)


def test_who_makes_a_collection_is_never_asked(tmp_path: Path) -> None:
    root = tmp_path / "news"
    assert webmill("init", root, "https://example.org/", "--contact", "me@example.org").code == 0
    with (root / "webmill.toml").open("a") as file:
        file.write(REACHING.replace("[search]", ""))  # an editor, some day later: the last section is [log]
    settings = (root / "webmill.toml").read_text().replace('# url = ""', 'url = "../elsewhere"')
    (root / "webmill.toml").write_text(settings.removesuffix(REACHING.replace("[search]", "")))
    assert "../elsewhere" in (root / "webmill.toml").read_text()
    assert is_trusted(root)
    assert "trust" not in webmill("search", root, "word").err


def test_a_folder_with_orders_of_others_is_not_made_the_user_s_own_by_init(tmp_path: Path) -> None:
    root = tmp_path / "theirs"
    (root / "frontier").mkdir(parents=True)
    (root / "frontier" / "flags.json").write_text('{"allow_private": true}')
    assert webmill("init", root, "https://example.org/").code == 0
    assert not is_trusted(root)


def test_archives_of_others_in_a_folder_of_one_s_own_do_no_harm(tmp_path: Path) -> None:
    root = tmp_path / "news"
    root.mkdir()
    (root / "a.warc.gz").write_bytes(b"")
    assert webmill("init", root, "https://example.org/").code == 0
    assert is_trusted(root)


def test_a_setting_that_the_user_gives_himself_counts_without_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = collection(tmp_path / "news")
    assert "webmill trust" not in webmill("search", "find", root, "word", "--index", "own").err
    monkeypatch.setenv("WEBMILL_SEARCH_URL", "own")
    assert "webmill trust" not in webmill("search", root, "word").err
    monkeypatch.delenv("WEBMILL_SEARCH_URL")
    assert "webmill trust" not in webmill("--config", root / "webmill.toml", "search", root, "word").err


def test_the_settings_of_the_working_directory_need_trust_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = collection(tmp_path / "unpacked")
    monkeypatch.chdir(root)
    assert f"webmill trust {root}" in webmill("cc", "crawls").err


def test_a_setting_inside_the_folder_needs_no_trust(tmp_path: Path) -> None:
    root = collection(tmp_path / "news")
    (root / "webmill.toml").write_text('[search]\nurl = "index"\n[crawl]\ndelay = "90s"\n[executor]\nurl = "inline"\n')
    assert "trust" not in webmill("search", root, "word").err


def test_every_setting_says_how_far_it_reaches() -> None:
    """A new setting cannot be declared without its reach; these are the ones that need trust today."""
    reaching = {f"{one.section}.{one.key}" for one in all_settings() if one.declared.reach != "inside"}
    assert reaching >= {"executor.url", "search.url", "queue.url", "crawl.frontier", "crawl.resolve"}
    text = {one for one in all_settings() if one.bare_type is str and one.declared.reach == "inside"}
    assert {f"{one.section}.{one.key}" for one in text} == {
        "alerts.mail_from",  # nothing is sent without rules, which need trust
        "alerts.secret",
        "crawl.name",
        "extract.extractor",
        "http.contact",
        "mcp.token",
        "serve.token",
    }, "a text may be a path or an address: if it is neither, enter it here"
