"""No command prints, logs or stores a password that an address, a flag, a variable or a file has (R-S01, R-S02)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.trust.commands import COMMANDS, DIR, OUT
from tests.trust.hostile import Scene
from tests.unit.cli.command import Ended, webmill
from webmill.cli.main import webmill as top
from webmill.masking import hide_secrets

SECRET = "pl4nted-secret"
NONSENSE = "nonsense://pl4nted-secret@127.0.0.1/place"
ADDRESSES = {  # wrong in ways that are told at once: a port that cannot be, a scheme that is not known, nobody there
    "amqp": ("amqp://user:pl4nted-secret@127.0.0.1:99999999/", NONSENSE),
    "redis": ("redis://:pl4nted-secret/with@signs@127.0.0.1:1/0", "redis://u:pl4nted-secret@127.0.0.1:99999999/0"),
    "s3": ("s3://key:pl4nted-secret@/prefix", "s3://key:pl4nted-secret@bucket?nonsense=1", NONSENSE),
    "search": ("opensearch://u:pl4nted-secret@127.0.0.1:1/i", "meilisearch://pl4nted/secret@127.0.0.1:1/i", NONSENSE),
    "ray": ("ray://u:pl4nted-secret@127.0.0.1:1", NONSENSE),
    "web": (NONSENSE,),
    "proxy": ("http://user:pl4nted-secret@127.0.0.1:1", "socks5h://user:pl4nted-secret@127.0.0.1:1", NONSENSE),
}
SCHEMES = {
    "--queue": "amqp",
    "--frontier": "redis",
    "--storage": "s3",
    "--index": "search",
    "--executor": "ray",
    "--base-url": "web",
    "--url": "redis",
    "--from": "s3",
    "--backup": "web",
    "--proxy": "proxy",
    "--cluster-idx": "web",
    "-o": "s3",
}
NOT_ADDRESSES = {"cc batch --url", "cc run --url", "export wacz --url", "dropin cdxj-search --url", "serve --storage"}
NEEDED = {  # what a command wants besides
    "cc work": ("-o", OUT, "--until-empty", "--no-metrics", "--base-url", DIR),
    "cc run": ("-o", OUT, "--crawl", "C", "--no-metrics", "--base-url", DIR),
    "cc batch": ("--crawl", "C", "--no-metrics", "--base-url", DIR),
    "cc paths": ("C",),
    "dataset manifest": ("--crawl", "C"),
    "publish run": (DIR, "--board-list", "{dir}/none.json", "--contact", "me@example.org"),
    "cdxj paths redis": ("-k", "key", "{dir}/none"),
    "crawl": (DIR, "https://town.example/", "--contact", "me@example.org", "--max-time", "1s"),
}


def address_options() -> Iterator[tuple[str, str]]:
    """Yield every command with every option that takes an address."""
    for name in COMMANDS:
        command: click.Command = top
        for word in name.split():
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found
            command = found
        for option in command.params:
            flags = [flag for flag in option.opts if flag in SCHEMES]
            if isinstance(option, click.Option) and flags and f"{name} {flags[0]}" not in NOT_ADDRESSES:
                printed = f"{option.metavar or ''} {option.help or ''}"
                if re.search(r"URL|://", printed):
                    yield name, flags[0]


def assert_hidden(ended: Ended, what: object) -> None:
    assert SECRET not in ended.err, what
    assert SECRET.encode() not in ended.out, what


@pytest.mark.slow
def test_no_command_prints_the_password_of_an_address_that_it_is_given(scene: Scene) -> None:
    options = list(address_options())
    assert len(options) > 40
    for name, flag in options:
        arguments = NEEDED.get(name, COMMANDS[name].arguments or ())
        for address in ADDRESSES[SCHEMES[flag]]:
            assert_hidden(scene.use(name, (*arguments, flag, address)), (name, flag, address))


@pytest.mark.slow
def test_passwords_in_variables_and_settings_are_neither_printed_nor_stored(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All commands on a collection, with logs of everything."""
    settings = f'[serve]\ntoken = "{SECRET}-token"\n[http]\ncontact = "me@example.org"\n[executor]\nurl = "inline"\n'
    (scene.theirs / "webmill.toml").write_text(settings)
    monkeypatch.setenv("WEBMILL_TRUST", str(scene.theirs))
    monkeypatch.setenv("WEBMILL_QUEUE_URL", f"amqp://user:{SECRET}@127.0.0.1:99999999/")
    monkeypatch.setenv("WEBMILL_SEARCH_URL", f"opensearch://user:{SECRET}@127.0.0.1:99999999/index")
    monkeypatch.setenv("WEBMILL_COMMONCRAWL_BASE_URL", f"s3://key:{SECRET}@bucket/")
    for name, use in COMMANDS.items():
        if use.arguments is not None and name != "serve":
            filled = [one.format(dir=scene.theirs, out=scene.theirs.parent / "out") for one in use.arguments]
            assert_hidden(webmill("-vv", *name.split(), *filled), name)
    files = [path for path in scene.theirs.parent.rglob("*") if path.is_file()]
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == ["webmill.toml"]


def test_files_that_may_hold_a_secret_are_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.umask(0o022)
    monkeypatch.chdir(tmp_path)
    webmill("init", "news", "https://nowhere.invalid/", "--contact", "me@example.org")
    webmill("crawl", "news", "https://nowhere.invalid/", "--max-time", "1s", "--name", "news")
    Path("d.toml").write_text('name = "d"\nmanifest = ["a.warc"]\n')
    webmill("dataset", "create", "d.toml")
    for name in ("news/webmill.toml", "news/frontier/flags.json", "datasets/d/dataset.json"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600, name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:pass@10.0.0.1/0", "redis://***@10.0.0.1/0"),
        ("at s3://KEY:SEC/RET@bucket/p?region=x, or amqp://u:p@h/", "at s3://***@bucket/p?region=x, or amqp://***@h/"),
        ("https://u:p@example.org/a", "https://***@example.org/a"),
        ("https://example.org/@name?q=a@b", "https://example.org/@name?q=a@b"),
        ("s3://b/p?secret_access_key=abc&region=x", "s3://b/p?secret_access_key=***&region=x"),
        ("https://x.example/?token=abc#f", "https://x.example/?token=***#f"),
        ("opensearchs://u:p%40q@h:9200/i", "opensearchs://***@h:9200/i"),
        ("mail me@example.org", "mail me@example.org"),
    ],
)
def test_one_function_hides_what_is_secret_in_an_address(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown
    assert hide_secrets(shown) == shown
