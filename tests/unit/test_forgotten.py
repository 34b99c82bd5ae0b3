"""The list of what was taken down: which addresses it covers, for the index as for everybody else."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webmill.errors import Misconfigured, WrongUse
from webmill.forgotten import (
    ForgetRule,
    Forgotten,
    ForgottenFiles,
    change_rules,
    encode_rules,
    forgotten_at,
    list_path,
    never_asked,
    read_pattern,
    read_rules,
    user_list_path,
)
from webmill.formats.url.surt import surt
from webmill.index.cdxj.blocklist import parse_blocklist
from webmill.pipeline.forget.blocklist import block_rules, index_blocklist

AT = datetime(2026, 11, 19, tzinfo=UTC)
PATTERNS = ("https://www.a.example/Secret?x=1", "evil.example", "https://b.example/private/*", "127.0.0.1")
COVERED = (
    "http://a.example/secret?x=1",
    "https://www.a.example/Secret?x=1#part",
    "urn:view:https://a.example/secret?x=1",
    "https://evil.example/",
    "http://deep.down.evil.example:8080/x?y",
    "urn:pageinfo:https://www.evil.example/x",
    "https://b.example/private/x/y?z",
    "http://127.0.0.1:9999/any",
)
OPEN = (
    "https://a.example/secret",
    "https://a.example/secret?x=2",
    "https://a.example/secret2?x=1",
    "https://notevil.example/",
    "https://evil.example.org/",
    "https://b.example/private",
    "https://b.example/privateer",
    "http://127.0.0.2/",
    "urn:view:https://b.example/other",
)


def rules(*patterns: str) -> list[ForgetRule]:
    return [ForgetRule(pattern=read_pattern(one), at=AT, reason="why") for one in patterns]


def line_of(url: str) -> bytes:
    return f'{surt(url)} 20260101000000 {{"url": "{url}"}}\n'.encode()


@pytest.mark.parametrize(("url", "expected"), [*((one, True) for one in COVERED), *((one, False) for one in OPEN)])
def test_the_list_and_the_rules_of_an_index_cover_the_same(url: str, expected: bool) -> None:
    forgotten = Forgotten(rules(*PATTERNS))
    assert forgotten.covers(url) is expected
    assert forgotten.covers_key(surt(url)) is expected
    blocklist = parse_blocklist(f"{rule}\n".encode() for rule in block_rules(forgotten))
    assert bool(blocklist.partition([line_of(url)])[1]) is expected


def test_a_post_of_a_page_goes_with_it() -> None:
    forgotten = Forgotten(rules("https://a.example/form", "https://a.example/form2?a=1"))
    blocklist = parse_blocklist(f"{rule}\n".encode() for rule in block_rules(forgotten))
    for key in ("example,a)/form?__wb_method=post&name=x", "example,a)/form2?__wb_method=post&a=1&name=x"):
        assert blocklist.partition([f"{key} 20260101000000 {{}}\n".encode()])[1]
    assert not blocklist.partition([b"example,a)/form3?__wb_method=post 20260101000000 {}\n"])[1]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_address_is_an_answer(pattern: str, url: str) -> None:
    try:
        made = read_pattern(pattern)
    except WrongUse:
        return
    forgotten = Forgotten([ForgetRule(pattern=made, at=AT)])
    forgotten.covers(url)
    assert read_pattern(made) == made
    parse_blocklist(f"{rule}\n".encode() for rule in block_rules(forgotten))


@pytest.mark.parametrize("pattern", ["", "co.uk", "https://", "two words", "example.org*"])
def test_what_is_no_site_is_refused(pattern: str) -> None:
    with pytest.raises(WrongUse):
        read_pattern(pattern)


def test_a_list_is_kept_with_its_first_date_and_read_again_when_it_changes(tmp_path: Path) -> None:
    path = list_path(tmp_path)
    change_rules(path, add=rules("a.example"))
    later = ForgetRule(pattern="a.example", at=datetime(2027, 1, 1, tzinfo=UTC))
    assert (
        change_rules(path, add=[later, *rules("b.example")])
        == read_rules(path)
        == tuple(rules("a.example", "b.example"))
    )
    assert path.stat().st_mode & 0o077 == 0
    assert forgotten_at(tmp_path).digest
    files = ForgottenFiles(path)
    assert files.current().covers("http://b.example/")
    change_rules(path, remove=["b.example"])
    files._looked = 0.0  # a second later
    assert not files.current().covers("http://b.example/")


def test_a_damaged_list_is_no_empty_one(tmp_path: Path) -> None:
    path = list_path(tmp_path)
    change_rules(path, add=rules("a.example"))
    path.write_bytes(path.read_bytes().replace(b"a.example", b"b.example"))
    with pytest.raises(Misconfigured, match="damaged"):
        forgotten_at(tmp_path)
    path.write_bytes(b"{")
    with pytest.raises(Misconfigured, match="damaged"):
        ForgottenFiles(path).current()


def test_a_crawl_asks_the_lists_of_collection_and_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    change_rules(user_list_path(os.environ), add=rules("a.example"))
    change_rules(list_path(tmp_path / "news"), add=rules("b.example"))
    forgotten = never_asked(tmp_path / "news").current()
    assert [forgotten.covers(f"http://{name}.example/") for name in "abc"] == [True, True, False]
    assert forgotten_at(tmp_path / "news").covers("http://a.example/") is False


def test_the_blocklist_has_the_users_rules_too_and_goes_with_the_list(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("^own")
    assert index_blocklist(tmp_path, Forgotten(), own) == own
    both = index_blocklist(tmp_path, Forgotten(rules("a.example")), own)
    assert both is not None
    assert both.read_text().startswith("^own\n^example,a")
    assert index_blocklist(tmp_path, Forgotten(), None) is None
    assert not both.exists()


def test_a_list_does_not_depend_on_its_order() -> None:
    some = rules("b.example", "a.example")
    assert encode_rules(some) == encode_rules(reversed(some))
    assert Forgotten(some).digest == Forgotten(reversed(some)).digest
