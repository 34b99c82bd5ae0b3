"""A hundred wrong uses: each ends with a code and a sentence that helps, none with a traceback."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.sample_collection import NAME
from tests.unit.cli.command import webmill

INDEX = f"town/cc-index/collections/{NAME}/indexes"
UNREACHABLE = "127.0.0.1:1"

# The command, as typed; the code; words that must be in what is said.
USES: list[tuple[str, int, str]] = [
    # --- the command itself
    ("", 2, "Usage"),
    ("polish", 2, "No such command 'polish'"),
    ("--config none.toml run town", 1, "no settings file none.toml"),
    ("--config folder run town", 2, "is a directory"),
    ("--config bad.toml run town", 1, "not valid TOML"),
    ("--config garbage run town", 1, "not valid TOML"),
    ("--config typo.toml run town", 1, "typo.toml:2: unknown setting `serve.prt`: did you mean `port`?"),
    ("--config wrong.toml run town", 1, "wrong.toml:2: `serve.port`: Expected `int`, got `str`"),
    ("run quote", 1, "`crawl.flags`: no closing quotation"),
    ("--log-format xml status town", 2, "'xml' is not one of 'text', 'json'"),
    # --- crawl, frontier, status
    ("crawl new --contact me@example.org", 2, "name a URL to begin with, or --seeds FILE"),
    ("crawl new https://example.org/", 1, "--contact"),
    ("crawl new ftp://example.org/ --contact me@example.org", 1, "'ftp://example.org/' is not an http or https URL"),
    ("crawl new word --contact me@example.org", 1, "'word' has no host that can be looked up"),
    ("crawl new --seeds none.txt --contact me@example.org", 2, "none.txt"),
    ("crawl new --seeds folder --contact me@example.org", 2, "folder"),
    ("crawl file https://example.org/ --contact me@example.org", 2, "file"),
    ("crawl new https://example.org/ --contact me@example.org --include (", 1, "("),
    ("crawl new https://example.org/ --contact me@example.org --delay soon", 2, "'soon' is not a duration; write 90s"),
    ("crawl new https://example.org/ --contact me@example.org --max-bytes much", 2, "'much' is not a size; write 500K"),
    ("crawl new https://example.org/ --contact me@example.org --max-pages -1", 2, "-1"),
    ("crawl new https://example.org/ --contact me@example.org --resolve nonsense", 2, "nonsense"),
    ("crawl new https://example.org/ --contact me@example.org --frontier amqp://a/", 1, "redis://"),
    ("frontier stats none", 2, "Directory 'none' does not exist."),
    ("frontier stats folder", 1, "no crawl"),
    ("frontier restore none folder2", 1, "that is no backup: there is no manifest.json in it"),
    ("status none", 2, "Directory 'none' does not exist."),
    # --- archives
    ("warc check none.warc.gz", 2, "none.warc.gz"),
    ("warc check folder", 2, "folder"),
    ("warc check garbage", 3, "garbage"),
    ("warc list garbage.warc.gz", 3, "garbage.warc.gz"),
    ("derive wat garbage.warc.gz", 2, "give either -o DIR or --in-place"),
    ("derive wat garbage.warc.gz -o out", 3, "garbage.warc.gz"),
    ("derive pdf garbage.warc.gz", 2, "pdf"),
    ("add folder", 2, "Missing argument 'FILE...'"),
    ("add folder none.wacz", 2, "'none.wacz' does not exist."),
    ("add folder town", 2, "'town' is a directory."),
    ("add file garbage.warc.gz", 2, "Directory 'file' is a file."),
    ("add folder garbage.warc.gz", 3, "garbage.warc.gz: not a WARC or ARC file: there is no record in it [no_records]"),
    ("add folder garbage.wacz", 3, "garbage.wacz: not a ZIP file, despite its name [bad_zip]"),
    ("add folder garbage --name a/b", 1, "'a/b' cannot name a crawl"),
    ("index none", 2, "Directory 'none' does not exist."),
    ("index file", 2, "Directory 'file' is a file."),
    ("index folder", 1, "no WARC files below "),
    ("index folder --dry-run", 1, "no WARC files below "),
    ("index town --blocklist none.txt", 2, "none.txt"),
    ("index town --blocklist bad-regex.txt", 1, "bad-regex.txt"),
    ("extract none", 2, "Directory 'none' does not exist."),
    ("extract file", 2, "file"),
    ("extract folder", 0, "no WARC files in "),
    # --- cdxj
    ("cdxj index none.warc.gz", 1, "none.warc.gz"),
    ("cdxj index folder", 2, "index all files in it with: webmill index folder"),
    ("cdxj index garbage.warc.gz", 3, "garbage.warc.gz"),
    ("cdxj sort none", 1, "none"),
    ("cdxj merge none also-none", 2, "none"),
    ("cdxj merge unsorted.cdxj", 1, "unsorted"),
    ("cdxj zipnum unsorted.cdxj -o out", 1, "unsorted"),
    ("cdxj flatten none", 1, "none"),
    ("cdxj flatten folder", 1, "neither a summary"),
    ("cdxj verify folder", 1, "no summary"),
    ("cdxj query", 2, "-i"),
    ("cdxj query https://a.example/ -i none", 1, "none"),
    ("cdxj query https://a.example/ -i folder", 1, "folder"),
    ("cdxj query https://a.example/ -i garbage", 1, "garbage: neither a sorted CDXJ file"),
    (f"cdxj query https://a.example/ -i {INDEX} --from tomorrow", 1, "tomorrow"),
    (f"cdxj query https://a.example/ -i {INDEX} --filter ~url:(", 1, "("),
    (f"cdxj query https://a.example/ -i {INDEX} --limit 0", 2, "0"),
    (f"cdxj query https://a.example/ -i {INDEX} --sort closest", 2, "--closest"),
    (f"cdxj query https://a.example/ -i http://{UNREACHABLE}/cluster.idx", 1, UNREACHABLE),
    ("cdxj block -b none.txt unsorted.cdxj", 2, "none.txt"),
    ("cdxj block -b bad-regex.txt unsorted.cdxj", 1, "bad-regex.txt"),
    ("cdxj add-field unsorted.cdxj", 2, "Usage"),
    ("cdxj parquet unsorted.cdxj -o folder", 2, "folder"),
    # --- Common Crawl
    (f"cc crawls --base-url http://{UNREACHABLE}", 1, UNREACHABLE),
    ("cc paths NOTHING --base-url town", 1, "NOTHING"),
    ("cc paths NOTHING --kind pdf --base-url town", 2, "pdf"),
    ("cc batch --queue sqlite:q.sqlite", 2, "--crawl"),
    ("cc batch --crawl NOTHING --base-url town --queue sqlite:q.sqlite", 1, "webmill cc crawls"),
    ("cc run --crawl NOTHING --base-url town -o out --extractor none", 1, "webmill cc crawls"),
    (f"cc batch --crawl {NAME} --base-url town --queue kafka://a", 2, "kafka"),
    (f"cc batch --crawl {NAME} --base-url town --queue amqp://{UNREACHABLE}/", 1, UNREACHABLE),
    (
        f"cc batch --crawl {NAME} --base-url town --queue sqlite:q.sqlite --url-regex (",
        2,
        "not a valid RE2 regular expression",
    ),
    (f"cc batch --crawl {NAME} --base-url town --queue sqlite:q.sqlite --sample 2", 2, "2"),
    ("cc work --queue sqlite:none.sqlite --out out --until-empty --base-url town", 1, "none.sqlite"),
    ("cc work --queue sqlite:garbage --out out --until-empty --base-url town", 1, "garbage"),
    ("cc dead list --queue sqlite:none.sqlite", 1, "none.sqlite"),
    ("cc dead show 1 --queue sqlite:none.sqlite", 1, "none.sqlite"),
    # --- datasets
    ("dataset create none.toml", 1, "none.toml"),
    ("dataset create bad.toml", 1, "bad.toml"),
    ("dataset create typo.toml", 1, "typo.toml"),
    ("dataset run none", 1, "no dataset at"),
    ("dataset view none", 1, "no dataset at"),
    ("dataset delete none --yes", 1, "no dataset at"),
    ("dataset manifest --crawl NOTHING --from none", 1, "none"),
    # --- publish
    ("publish list none", 2, "none' does not exist."),
    ("publish list folder", 0, "nothing has been published"),
    ("publish show town 99", 1, "no version 99"),
    ("publish diff town live 99", 1, "no version 99"),
    ("publish rollback town nothing", 1, "no version nothing"),
    ("publish verify none", 2, "none' does not exist."),
    ("publish documents none", 2, "Directory 'none' does not exist."),
    ("publish documents folder", 1, "documents"),
    ("publish documents town --facet colour", 2, "colour"),
    ("publish documents town --most-lost 7", 2, "7"),
    ("publish documents town --storage ftp://a/b", 1, "s3://"),
    (
        f"publish documents town --storage s3://key:secret@bucket/x?endpoint=http://{UNREACHABLE}&region=a",
        1,
        UNREACHABLE,
    ),
    ("publish run new --site-map none.json --contact me@example.org", 2, "none.json"),
    ("publish run new --site-map garbage --contact me@example.org", 1, "garbage"),
    ("publish run new --site-map empty.json --contact me@example.org", 1, "empty.json"),
    ("publish run new --site-map empty.json", 1, "empty.json"),
    ("publish dead list folder", 1, "no queue"),
    ("publish dead list none", 2, "Directory 'none' does not exist."),
    ("publish dead requeue town", 2, "--all"),
    # --- search
    ("search folder ferry", 1, "webmill search update folder"),
    ("search none ferry", 2, "Directory 'none' does not exist."),
    ("search update folder", 1, "nothing has been published"),
    ("search town ferry --limit 0", 2, "0"),
    ("search town ferry --limit -5", 2, "-5 is not in the range"),
    ("search town ferry --sort colour", 2, "colour"),
    ("search town ferry --index garbage-search", 1, "garbage-search"),
    # --- run, init, export, serve, doctor
    ("run none", 2, "Directory 'none' does not exist."),
    ("run town --stage polish", 2, "polish"),
    ("run town --every often", 2, "'often' is not a duration"),
    ("init file", 2, "file"),
    ("init made", 1, "already"),
    ("export wacz folder out.wacz", 1, "nothing is indexed"),
    ("export wacz town folder", 2, "folder"),
    ("export wacz town none/out.wacz", 1, "none"),
    ("export wacz town out.wacz --url https://nowhere.example/", 1, "no captures match this query"),
    ("serve none", 2, "Directory 'none' does not exist."),
    ("serve file", 2, "file"),
    ("serve town --port TAKEN --replay-port 0", 1, "TAKEN"),
    ("serve town --port 99999", 2, "99999"),
    ("serve town --certificate none.pem --key none.pem", 1, "none.pem"),
    ("serve town --host 203.0.113.7 --port 0", 1, "203.0.113.7"),
    ("doctor none", 2, "Directory 'none' does not exist."),
    ("doctor --frontier redis://127.0.0.1:1/0", 1, "127.0.0.1:1"),
    ("doctor --sweep", 2, "--sweep needs DIR"),
    # --- other people's names
    ("surt --nothing", 2, "--nothing"),
    ("dropin cdxj-search none.cdxj --url https://a.example/", 1, "No files found"),
    ("dropin merge-flat-cdxj - none.cdxj", 1, "none.cdxj"),
    ("dropin install file", 2, "file"),
    ("demo --keep town --no-serve", 2, "is not empty"),
]


@pytest.fixture
def place(sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A folder to be wrong in; a port that is taken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a server that others found silent is asked again here
    garbage = bytes(range(256)) * 40
    for name in ("garbage", "garbage.warc.gz", "garbage.wacz", "file"):
        Path(name).write_bytes(garbage)
    for name in ("folder", "garbage-search", "made", "quote"):
        Path(name).mkdir()
    Path("garbage-search/meta.json").write_bytes(garbage)
    Path("made/webmill.toml").write_text("")
    Path("bad.toml").write_text("[serve\n")
    Path("typo.toml").write_text("[serve]\nprt = 1\n")
    Path("wrong.toml").write_text('[serve]\nport = "many"\n')
    Path("quote/webmill.toml").write_text("[crawl]\nflags = '--resolve \"a'\n")
    Path("quote/seeds.txt").write_text("https://example.org/\n")
    Path("empty.json").write_text("{}")
    Path("bad-regex.txt").write_text("(\n")
    Path("unsorted.cdxj").write_text('b 20240101000000 {"url": "b"}\na 20240101000000 {"url": "a"}\n')
    Path("town").symlink_to(sample_root)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize(("typed", "code", "words"), USES, ids=[typed for typed, _, _ in USES])
def test_a_wrong_use_ends_with_a_sentence(typed: str, code: int, words: str, place: int) -> None:
    ended = webmill(*typed.replace("TAKEN", str(place)).split())
    printed = ended.err + ended.out.decode(errors="replace")
    assert (ended.code, words.replace("TAKEN", str(place)) in printed) == (code, True), f"{ended.code}: {printed}"
    assert max(map(len, ended.err.splitlines()), default=0) < 1000
    assert "Traceback" not in printed


def test_there_are_a_hundred_of_them() -> None:
    assert len(USES) >= 100
