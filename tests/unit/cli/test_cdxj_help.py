"""Wrong use of `webmill cdxj` and `dropin` ends as a sentence and code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.command import webmill


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cdxj", "merg"), "Did you mean 'merge'?"),
        (("cdxj", "merge"), "Missing argument"),
        (("cdxj", "merge", "nowhere"), "nowhere"),
        (("cdxj", "zipnum"), "Missing option '-o'"),
        (("cdxj", "zipnum", "-o", "x", "--shards", "2", "--shard-size", "3"), "either --shards or --shard-size"),
        (("cdxj", "zipnum", "-o", "x", "--jobs", "2"), "--processes needs --shards"),
        (("cdxj", "zipnum", "-o", "x", "--lines", "0"), "0 is too small"),
        (("cdxj", "zipnum", "-o", "x", "--lines", "many"), "'many' is not a whole number"),
        (("cdxj", "query", "--index", "x"), "either a URL or --surt"),
        (("cdxj", "query", "a.com", "--surt", "com,a)/", "--index", "x"), "either a URL or --surt"),
        (("cdxj", "query", "a.com"), "Missing option '-i'"),
        (("cdxj", "query", "a.com", "--index", "x", "--sort", "closest"), "--sort closest needs --closest"),
        (("cdxj", "query", "a.com", "--index", "x", "--sort", "reverse", "--closest", "2021"), "no other order"),
        (("cdxj", "query", "a.com", "--index", "x", "--match", "range"), "'range' is not one of"),
        (("cdxj", "add-field"), "either -f KEY=VALUE or --function"),
        (("cdxj", "add-field", "-f", "novalue"), "'novalue' is not KEY=VALUE"),
        (("cdxj", "block", "-b", "nowhere"), "nowhere"),
        (("cdxj", "excessive", "auto", "-n", "-1"), "-1 is too small"),
        (("cdxj", "verify", "nowhere"), "nowhere"),
        (("cdxj", "paths", "redis"), "Missing option '-k'"),
        (("dropin", "merge-flat-cdxj", "-"), "Missing argument"),
        (("dropin", "addfield-to-flat-cdxj", "-i", "-"), "either -f KEY=VALUE or --function"),
        (("dropin", "cdxj-search", "x"), "either --url URL or --surt KEY"),
        (("dropin", "flat-cdxj-to-zipnum", "-i", "-", "-o", "x", "--base", "../up"), "not the plain name"),
        (("dropin", "arclist-to-path-index"), "either -i FILE or -d DIR"),
        (("dropin", "path-index-to-redis", "-k", "x"), "Missing option '-i'"),
        (("dropin", "cdxj-index-collection", "../up"), "not the plain name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_use_is_a_sentence_and_code_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = webmill(*arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cdxj", "sort", "nowhere"), "not found: no file nowhere"),
        (("cdxj", "flatten", "nowhere"), "not found: no index at nowhere"),
        (("cdxj", "query", "a.com", "--index", "nowhere"), "not found: no index at nowhere"),
        (("cdxj", "query", "a.com", "--index", "."), "neither a summary (cluster.idx) nor a .cdxj file"),
        (("cdxj", "query", "a.com", "--index", "empty.cdxj", "--from", "x"), "not a date: 'x'"),
        (("cdxj", "query", "a.com", "--index", "empty.cdxj", "--filter", "~url:("), "bad input: filter '('"),
        (("cdxj", "paths", "make", "empty.cdxj"), "the lists are empty"),
        (("cdxj", "paths", "redis", "empty.cdxj", "-k", "x", "--url", "gopher://x"), "not the address of a Redis"),
        (("cdxj", "paths", "redis", "empty.cdxj", "-k", "x", "--url", "redis://:secret@127.0.0.1:1"), "no Redis at"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_not_there_is_a_sentence_and_code_1(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.cdxj").touch()
    if arguments[-1] == ".":
        (tmp_path / "empty.cdxj").unlink()
    done = webmill(*arguments)
    assert done.code == 1
    assert message in done.err
    assert "secret" not in done.err
