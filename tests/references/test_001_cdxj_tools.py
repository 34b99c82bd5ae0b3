"""The architecture of replay-cdxj-indexing-tools: its examples, run in a shell as they stand, and its statements."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest
import redis

from tests.references.cdxj_samples import WHEN, files, line, put, put_warc, run_shell
from tests.references.claim import differs, works
from tests.unit.cli.command import dropin, webmill
from tests.unit.index.test_pywb_reads_our_zipnum import ask_pywb
from tests.unit.index.zipnum_samples import make_lines
from webmill.index.cdxj.blocklist import block, load_blocklist
from webmill.index.lines import FilterCounts, read_batches

LINES = [line(f"com,h{letter})/") for letter in "abcdef"]
ALL = b"".join(LINES)
BLOCKLIST = [b"# Comment\n", b"^pt,spam,.*\n", b"^com,example,banned-path\n"]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    assert webmill("dropin", "install", folder).code == 0
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Its storage locations, and a `./cdxj-index-collection` that looks there and not in /data."""
    put_warc(tmp_path / "data/collections/AWP999/b.warc.gz", "http://b.pt/", "http://a.pt/")
    places = "--collections-dir data/collections --output-dir data/zipnum --temp-dir data/temp"
    script = put(
        tmp_path / "cdxj-index-collection", [f'#!/bin/sh\nexec cdxj-index-collection "$@" {places}\n'.encode()]
    )
    script.chmod(0o755)
    return tmp_path


def keys(folder: Path) -> list[str]:
    done = webmill("cdxj", "flatten", folder)
    assert done.code == 0, done.err
    return [each.split(b" ")[0].decode() for each in done.lines]


# --- its examples, word by word ---------------------------------------------------------------------------------------


@works("`./cdxj-index-collection AWP999`: process an entire collection from scratch")
@works("the stages: index, add the collection field, filter the blocklist, merge, filter excessive URLs, ZipNum")
@differs(
    "`cdxj-index-collection` runs the stages (its own script gives two of its tools flags that they refuse)",
    now="works, and counts the captures that are in the index",
)
@differs(
    "the indexes of single WARC files are merged as `cdx-indexer` wrote them, which is not sorted",
    now="sorted",
    why="every reader uses binary search",
)
def test_a_collection_is_indexed_from_scratch(data: Path, commands: Path) -> None:
    done = run_shell("./cdxj-index-collection AWP999", data, commands)
    assert done.returncode == 0, done.stderr
    assert keys(data / "data/zipnum/AWP999") == ["pt,a)/", "pt,b)/"]
    assert "2 in the index, of 2 in the WARC files" in done.stdout
    lines = webmill("cdxj", "flatten", data / "data/zipnum/AWP999").lines
    assert {json.loads(each.split(b" ", 2)[2])["collection"] for each in lines} == {"AWP999"}


@works("`./cdxj-index-collection AWP999 --incremental`: process only new or modified WARCs")
@differs(
    "`--incremental` compares times, and without `--keep-temp` nothing is kept between two runs",
    now="always kept; size, times, inode and both ends of a file are compared",
)
@differs("captures of a WARC that was deleted stay in the index", now="they leave it")
@differs(
    "two WARC files of one name in two folders: one index overwrites the other",
    now="both are indexed; `filename` is then the path below the collection",
)
def test_only_new_warcs_are_read_and_deleted_ones_leave(data: Path, commands: Path) -> None:
    folder = data / "data/collections/AWP999"
    put_warc(folder / "sub/b.warc.gz", "http://c.pt/")
    assert run_shell("./cdxj-index-collection AWP999 --incremental", data, commands).returncode == 0
    (folder / "b.warc.gz").unlink()
    put_warc(folder / "new.warc.gz", "http://new.pt/")
    assert run_shell("./cdxj-index-collection AWP999 --incremental", data, commands).returncode == 0
    assert keys(data / "data/zipnum/AWP999") == ["pt,c)/", "pt,new)/"]


PIPE = """\
merge-flat-cdxj - *.cdxj | \\
    filter-blocklist -i - -b blocklist.txt | \\
    filter-excessive-urls auto -i - -n 1000 | \\
    flat-cdxj-to-zipnum -o indexes/ -i - --compress
"""


@works(
    "the pipe `merge-flat-cdxj - *.cdxj | filter-blocklist … | filter-excessive-urls auto -i - … | "
    "flat-cdxj-to-zipnum … --compress`"
)
@works("`^pt,spam,.*` and `^com,example,banned-path` in a blocklist, with a `# Comment`")
@works("All captures of a URL with more than 1000 (the default threshold) are removed")
@differs("`filter-excessive-urls auto -i -` (refused by its own tool)", now="works, in one pass with bounded memory")
@differs(
    "`indexes/cdx-00000.gz`, `summary.idx`",
    now="`indexes.cdx.gz`, `indexes.idx`, `indexes.loc`, as its code names them; `webmill cdxj zipnum` and "
    "`cdxj-index-collection` write `cdx-00000.gz`, `cluster.idx`, `cluster.loc`, as Common Crawl does",
    why="the document and the code of the tool differ",
)
def test_the_pipe_runs_as_it_stands(tmp_path: Path, commands: Path) -> None:
    trap = [line("pt,trap)/", f"2024{number:010d}") for number in range(1001)]
    put(tmp_path / "a.cdxj", [line("com,example)/"), line("com,example,banned-path)/"), *trap])
    put(tmp_path / "b.cdxj", [line("pt,good)/"), line("pt,spam,www)/")])
    put(tmp_path / "blocklist.txt", BLOCKLIST)
    done = run_shell(PIPE, tmp_path, commands)
    assert done.returncode == 0, done.stderr
    assert set(files(tmp_path / "indexes")) == {"indexes.cdx.gz", "indexes.idx", "indexes.loc"}
    assert keys(tmp_path / "indexes") == ["com,example)/", "pt,good)/"]
    assert "# Kept 1003 lines, blocked 2 lines (0.2%)" in done.stderr
    assert "# Kept 2 lines, filtered 1001 lines" in done.stderr


CUSTOM = """\
custom-filter -i input.cdxj -o output.cdxj

merge-flat-cdxj - *.cdxj | \\
    custom-filter -i - | \\
    filter-blocklist -i - -b blocklist.txt
"""


@works("`custom-filter -i input.cdxj -o output.cdxj`, and `custom-filter -i -` between two of the tools")
def test_a_stage_of_ones_own_can_be_inserted(tmp_path: Path, commands: Path) -> None:
    own = '#!/bin/sh\ncase "$2" in -) grep -v hb ;; *) grep -v hb < "$2" > "$4" ;; esac\n'
    program = put(tmp_path / "bin/custom-filter", [own.encode()])
    program.chmod(0o755)
    put(tmp_path / "input.cdxj", LINES[:3])
    put(tmp_path / "blocklist.txt", [b"^com,hc\n"])
    done = run_shell(f"PATH=$PWD/bin:$PATH\n{CUSTOM}", tmp_path, commands)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output.cdxj").read_bytes() == LINES[0] + LINES[2]
    assert done.stdout.encode() == LINES[0] * 2


@differs(
    "`from replay_cdxj_indexing_tools.filter import blocklist`",
    now="`from webmill.index.cdxj.blocklist import load_blocklist, block`",
    why="generators over batches of lines: stages of your own go between them",
)
def test_the_filters_are_functions_too(tmp_path: Path) -> None:
    path, rules = put(tmp_path / "a.cdxj", LINES), put(tmp_path / "rules", [b"^com,hc\n"])
    own = ([each for each in batch if b"hb" not in each] for batch in read_batches(path))
    tally = FilterCounts()
    kept = [each for batch in block(own, load_blocklist(rules), tally=tally) for each in batch]
    assert (kept, tally.removed) == ([LINES[0], *LINES[3:]], 1)


@works('`com,example)/ 20240101120000 {"url": "http://example.com/", "mime": "text/html", ...}`')
def test_a_line_of_cdxj_is_what_it_says() -> None:
    (made,) = [line("com,example)/")]
    assert made.startswith(b'com,example)/ 20240101120000 {"url": "http://example.com/", "mime": "text/html"')
    assert dropin("cdxj-extract-field", "-f", "mime", "--raw", stdin=made).out == b"text/html\n"


@works(
    "`-n`, `--lines-per-block`, `--chunk-size`: 3000 lines in a block unless told otherwise; `--compress`, "
    "`--verbose`, `--workers`"
)
@works("`merge-flat-cdxj --buffer-size 4194304 input1.cdxj input2.cdxj -o output.cdxj`")
@works("`flat-cdxj-to-zipnum --workers 4 --verbose input.cdxj -o /output/`")
@works("`filter-excessive-urls --buffer-size 2097152 input.cdxj -o filtered.cdxj`")
def test_every_flag_of_its_documentation_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "input1.cdxj", LINES[::2])
    put(tmp_path / "input2.cdxj", LINES[1::2])
    merge = ("merge-flat-cdxj", "--buffer-size", "4194304", "input1.cdxj", "input2.cdxj", "-o", "output.cdxj")
    assert dropin(*merge).code == 0
    assert Path("output.cdxj").read_bytes() == ALL
    assert dropin("filter-excessive-urls", "--buffer-size", "2097152", "output.cdxj", "-o", "filtered.cdxj").code == 0
    assert Path("filtered.cdxj").read_bytes() == ALL
    for flag in ("-n", "--lines-per-block", "-c", "--chunk-size"):
        done = dropin(
            "flat-cdxj-to-zipnum", "--workers", "4", "--verbose", "output.cdxj", "-o", "x", flag, "2", "--compress"
        )
        assert done.code == 0
        assert "6 lines, 3 blocks" in done.err
        assert len(Path("x/x.idx").read_bytes().splitlines()) == 3
    assert dropin("merge-flat-cdxj", "--version").out.startswith(b"webmill ")


# --- its index -------------------------------------------------------------------------------------------------------


@works("ZipNum: pywb-compatible format")
@differs(
    "the fifth column of `.idx` is the number of the shard",
    now="the running number of the block",
    why="pywb computes result pages from it, and returned 816 of 5,491 lines with the old one",
)
@differs(
    "of an index with one shard `.idx` says `X-01.cdx.gz`, disk and `.loc` say `X.cdx.gz`",
    now="all say `X.cdx.gz`",
    why="pywb does not find the shard of the old one",
)
def test_pywb_reads_the_index(tmp_path: Path, judges: Path) -> None:
    lines = make_lines(500)
    assert dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", tmp_path / "X", "-n", "20", stdin=b"".join(lines)).code == 0
    rows = [row.split(b"\t") for row in (tmp_path / "X/X.idx").read_bytes().splitlines()]
    assert [int(row[4]) for row in rows] == [*range(1, len(rows) + 1)]
    assert {row[1] for row in rows} == {b"X.cdx.gz"}
    assert (tmp_path / "X/X.loc").read_bytes() == b"X.cdx.gz\tX.cdx.gz\n"
    (answer,) = ask_pywb(judges, tmp_path / "X/X.idx", [("com", "domain")])
    assert len(answer) == sum(each.startswith(b"com,") for each in lines)


@differs("`zipnum-to-flat-cdxj` without a `.loc`: no lines, exit 0", now="all lines")
@differs(
    "a shard is missing or damaged: a warning at most, fewer lines, exit 0", now="an error that names the place, exit 1"
)
@works("a `.loc` or `.idx` that names a file outside of the folder is refused; here, so are links out of it")
def test_flat_again_all_lines_or_an_error(tmp_path: Path) -> None:
    base = tmp_path / "X"
    assert dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", base, stdin=ALL).code == 0
    (base / "X.loc").unlink()
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "X.idx").out == ALL
    shard = (base / "X.cdx.gz").read_bytes()
    (base / "X.cdx.gz").write_bytes(shard[:-9])
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "X.idx").code == 1
    put(tmp_path / "outside.cdx.gz", [shard])
    for place in ("../outside.cdx.gz", str(tmp_path / "outside.cdx.gz")):
        (base / "X.loc").write_text(f"X.cdx.gz\t{place}\n")
        assert dropin("zipnum-to-flat-cdxj", "-i", base / "X.idx").code == 1


@differs("empty input gives a shard of 0 bytes", now="no shard, an empty `.idx`", why="there is no block to name")
@differs("files have the mode 0600", now="set by your umask", why="pywb often runs as another user")
@differs(
    "`.idx` is written in place, over seconds",
    now="`.loc` and `.idx` are replaced atomically, `.idx` last",
    why="pywb may be reading; `webmill cdxj zipnum` also keeps the old shards for it",
)
@differs(
    "`--compress-level` 1 to 9",
    now="always the level that is smaller and faster than its default",
    why="stderr says so",
)
def test_how_the_files_of_an_index_are_written(tmp_path: Path) -> None:
    base, before = tmp_path / "X", os.umask(0o022)
    try:
        done = dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", base, "--compress-level", "9", stdin=ALL)
    finally:
        os.umask(before)
    assert "always compressed at level" in done.err
    assert {path.stat().st_mode & 0o777 for path in base.iterdir()} == {0o644}
    with (base / "X.idx").open("rb") as reader:
        assert dropin("flat-cdxj-to-zipnum", "-i", "/dev/null", "-o", base).code == 0
        assert reader.read().startswith(b"com,ha)/ ")
    assert files(base) == {"X.idx": b"", "X.loc": b""}


# --- its lines -------------------------------------------------------------------------------------------------------


@works("Merge: k-way, streaming, sorted by SURT; `merge-flat-cdxj OUTPUT PATH…`, `--exclude`, `-v`, `-q`")
@works("Check file existence")
@works("SURT ordering verification")
@differs(
    "unsorted input of merge, ZipNum and the excessive filter is accepted, and the output unsorted",
    now="refused with file and line",
    why="every reader uses binary search",
)
@differs("the last line of a file without newline is joined with the next", now="a newline is added")
@differs("a path that does not exist is skipped silently", now="an error")
def test_a_merge_is_sorted_or_refused(tmp_path: Path) -> None:
    put(tmp_path / "in/1", [LINES[0].rstrip()])
    put(tmp_path / "in/2", [LINES[1].rstrip()])
    put(tmp_path / "in/3.tmp", [LINES[2]])
    done = dropin("merge-flat-cdxj", "-", tmp_path / "in", "--exclude", "*.tmp", "-v")
    assert done.lines == LINES[:2]
    assert "[EXCLUDE] 3.tmp (matches: *.tmp)" in done.err
    bad = put(tmp_path / "bad", [LINES[1], LINES[0]])
    for command in (["merge-flat-cdxj", "-", bad], ["filter-excessive-urls", "auto", "-i", bad]):
        refused = dropin(*command)
        assert refused.code == 1
        assert f"{bad}:2" in refused.err
    assert dropin("flat-cdxj-to-zipnum", "-i", bad, "-o", tmp_path / "X").code == 1
    assert not (tmp_path / "X/X.idx").exists()
    assert dropin("merge-flat-cdxj", "-", tmp_path / "nothing").code == 1


@differs(
    "more files than may be open: the merge fails", now="they are merged", why="files are closed between two blocks"
)
def test_a_merge_of_more_files_than_may_be_open(tmp_path: Path, commands: Path) -> None:
    for number in range(60):
        put(tmp_path / f"{number:02d}.cdxj", [line(f"com,h{number:02d})/")])
    done = run_shell("ulimit -n 40; merge-flat-cdxj - *.cdxj", tmp_path, commands)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 60


@differs("a blank line in a blocklist drops every line, exit 0", now="it is not a rule")
@differs("`#` in a blocklist is used as a pattern, too", now="a comment")
@differs(
    "a rule that is not a valid regular expression drops every line, exit 0", now="refused with its line number, exit 1"
)
@differs(
    "rules are those of `grep -E`",
    now="RE2; an unmatched `)` is a plain character as in grep; no back-references",
    why="100,000 rules take no longer than ten",
)
@differs('`filter-blocklist -i -` always counts "blocked 0"', now="counts correctly")
@differs("bytes that are not UTF-8 end in a traceback", now="passed through")
def test_blocklists_drop_what_they_name_and_no_more(tmp_path: Path) -> None:
    odd = b'com,hg)/\xff 20240101120000 {"url": "x"}\n'
    rules = put(tmp_path / "rules", [b"# ^com\n", b"\n", b"^com,hc)/\n"])
    done = dropin("filter-blocklist", "-i", "-", "-b", rules, stdin=ALL + odd)
    assert done.lines == [*LINES[:2], *LINES[3:], odd]
    assert done.err == "# Kept 6 lines, blocked 1 lines (14.3%)\n"
    bad = put(tmp_path / "bad", [b"a{2,1}\n"])
    refused = dropin("filter-blocklist", "-i", "-", "-b", bad, "-o", tmp_path / "out", stdin=ALL)
    assert (refused.code, (tmp_path / "out").exists()) == (1, False)
    assert f"{bad}:1" in refused.err


@works("`find`, `remove`, `auto`: find excessive URLs, remove them, or both; more than the threshold is excessive")
def test_excessive_urls_are_found_and_removed(tmp_path: Path) -> None:
    many = sorted([*LINES, *(line("com,hc)/", f"2024020100000{number}") for number in range(4))])
    path = put(tmp_path / "all", many)
    found = dropin("filter-excessive-urls", "find", "-i", path, "-n", "4")
    assert (found.out, found.err) == (b"com,hc)/ 5\n", "# Found 1 URLs with > 4 occurrences\n")
    listed = put(tmp_path / "listed", [found.out])
    for command in (["remove", "-i", path, "-b", listed], ["auto", "-i", path, "-n", "4"]):
        assert dropin("filter-excessive-urls", *command).lines == [*LINES[:2], *LINES[3:]]
    assert dropin("filter-excessive-urls", "auto", "-i", path, "-n", "5").lines == many


@works("Adds `collection` field to all records; preserves all original data")
@differs(
    "after `addfield` JSON is written anew, without spaces",
    now="unchanged; the field is added in the same style",
    why='rules such as `\\{"url": "…` match nothing in the old output',
)
@differs("`cdxj-extract-field -s -d X` prints X", now="prints nothing, as its help says")
def test_fields_are_added_and_extracted() -> None:
    added = dropin("addfield-to-flat-cdxj", "-i", "-", "-f", "collection=AWP999", stdin=ALL)
    assert added.lines == [each.removesuffix(b"}\n") + b', "collection": "AWP999"}\n' for each in LINES]
    assert dropin("cdxj-extract-field", "-f", "collection", "-r", stdin=added.out).out == b"AWP999\n" * 6
    assert dropin("cdxj-extract-field", "-f", "none", "-s", "-d", "X", stdin=ALL).out == b""


@differs(
    "a path index is in the order of the lists",
    now="the same; `webmill cdxj paths make` sorts it",
    why="pywb uses binary search",
)
@differs("several paths of a file: the first (its manual says all)", now="the first", why="pywb reads only one")
@differs("an invalid line of a path index is skipped with a warning", now="an error with its line number")
@differs(
    "`path-index-to-redis -i index.idx --prefix archive:` of one of its manuals",
    now="refused, as its tool does: `-k KEY` names the hash",
    why="that manual is about a tool that was never released",
)
def test_path_indexes(tmp_path: Path) -> None:
    listed = put(tmp_path / "list.txt", [b"/data/b.warc.gz\n", b"https://x/a.warc.gz\n"])
    made = dropin("arclist-to-path-index", "-i", listed)
    assert made.out == b"b.warc.gz\t/data/b.warc.gz\na.warc.gz\thttps://x/a.warc.gz\n"
    assert webmill("cdxj", "paths", "make", listed).lines == sorted(made.lines)
    bad = dropin("path-index-to-redis", "-i", "-", "-k", "x", "--dry-run", stdin=made.out + b"nothing\n")
    assert bad.code == 1
    assert ":3" in bad.err
    several = dropin("path-index-to-redis", "-i", "-", "-k", "x", "--dry-run", "-v", stdin=b"a\t/1/a\t/2/a\n")
    assert "# Entries submitted: 1" in several.err
    assert dropin("path-index-to-redis", "-i", listed, "--prefix", "archive:").code == 2


@pytest.mark.server("redis")
@differs(
    "`--clear`: the hash is empty while it is loaded, and stays empty if loading fails",
    now="replaced atomically, when everything is loaded",
)
@differs("`--username` is ignored", now="used")
def test_a_hash_is_replaced_when_all_is_loaded(tmp_path: Path, redis_url: str) -> None:
    key, place = f"webmill-test-001-{os.getpid()}", re.fullmatch(r"redis://([^:/]+):(\d+).*", redis_url)
    assert place
    where = ("-k", key, "--host", place[1], "--port", place[2])
    paths = put(tmp_path / "paths", [b"new\t/new\n"])
    with redis.Redis.from_url(redis_url) as client:
        client.hset(key, "old", "/old")
        failed = dropin("path-index-to-redis", "-i", put(tmp_path / "bad", [b"x\t/x\n", b"bad\n"]), *where, "--clear")
        assert (failed.code, client.hgetall(key)) == (1, {b"old": b"/old"})
        refused = dropin("path-index-to-redis", "-i", paths, *where, "--username", "nobody", "--password", "x")
        assert (refused.code, client.hgetall(key)) == (1, {b"old": b"/old"})
        assert dropin("path-index-to-redis", "-i", paths, *where, "--clear").code == 0
        assert client.hgetall(key) == {b"new": b"/new"}
        client.delete(key)


# --- its search ------------------------------------------------------------------------------------------------------


@differs(
    "`cdxj-search` in ZipNum misses blocks that begin with the key: 25 of 150 searches wrong",
    now="equal to a linear scan",
)
@differs("results of several files come file by file, of shards as they finish", now="sorted; `--sort` has no effect")
def test_a_search_finds_every_line(tmp_path: Path) -> None:
    lines = make_lines(300)
    assert (
        dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", tmp_path / "X", "-n", "3", stdin=b"".join(lines[::2])).code == 0
    )
    flat = put(tmp_path / "flat.cdxj", lines[1::2])
    for key in sorted({each.split(b" ")[0] for each in lines})[::7]:
        found = dropin("cdxj-search", "--surt", key.decode(), flat, tmp_path / "X/X.idx")
        assert found.lines == [each for each in lines if each.startswith(key + b" ")]


@differs("`--to 2021`: up to the first second of 2021", now="up to its last second")
@differs("`--from 2020-01`: a traceback", now="from January 2020 on")
@differs("`status!=404` drops lines without a status", now="keeps them: it is not 404")
@differs("`url=http://a/~b` is split at the `~`", now="at the first operator")
@differs("`(jpg|png)+` is refused as dangerous", now="taken: RE2 runs in linear time")
@differs(
    "`--matchType subdomains`: its help says with the domain itself, its code leaves it out",
    now="without; the help says so",
    why="`webmill cdxj query --match domain` gives both",
)
def test_what_a_search_asks_for(tmp_path: Path) -> None:
    lines = sorted(
        [
            line("com,a)/", "20191231235959"),
            line("com,a)/", "20200101000000", status="404"),
            line("com,a)/", "20211231235959", url="http://a/~b.jpg"),
            b'com,a)/ 20220101000000 {"url": "http://a.com/"}\n',
            line("com,a,sub)/", "20220101000000"),
        ]
    )
    path = put(tmp_path / "a.cdxj", lines)

    def years(*flags: str) -> list[str]:
        done = dropin("cdxj-search", "--surt", "com,a)/", *flags, path)
        assert done.code == 0, done.err
        return [each.split(b" ")[1][:4].decode() for each in done.lines]

    assert years("--to", "2021") == ["2019", "2020", "2021"]
    assert years("--from", "2020-01") == ["2020", "2021", "2022"]
    assert years("--filter", "status!=404") == ["2019", "2021", "2022"]
    assert years("--filter", "url=http://a/~b.jpg") == years("--filter", "url~(jpg|png)+$") == ["2021"]
    assert years("--matchType", "subdomains") == ["2022"]


# --- its pipeline ----------------------------------------------------------------------------------------------------


@works("Atomic writes: an interrupted run leaves no half index; what it left is cleaned up by the next")
@differs(
    "a stage of a pipe fails, or is killed: the next one takes what it got for all",
    now="it fails, too, and writes no index (killed: on Linux, and between commands of webmill)",
    why="a foreign command that is killed after it wrote something shows only by `set -o pipefail`",
)
def test_half_a_pipe_is_no_index(tmp_path: Path, commands: Path) -> None:
    put(tmp_path / "bad.cdxj", [LINES[1], LINES[0]])
    put(tmp_path / "blocklist.txt", BLOCKLIST)
    assert run_shell(PIPE, tmp_path, commands).returncode == 1
    assert not (tmp_path / "indexes/indexes.idx").exists()
    put(tmp_path / "bad.cdxj", LINES)
    killed = PIPE.replace("merge-flat-cdxj - *.cdxj", "bash -c 'kill -9 $$'")
    assert run_shell(killed, tmp_path, commands).returncode != 0
    assert not (tmp_path / "indexes/indexes.idx").exists()


@differs(
    "a damaged WARC is indexed in part, and marked as done",
    now="its good records are indexed; `rejected/` says what was not, exit 3",
)
@differs("`--no-compress` (refused by the tool that it calls)", now="one flat sorted CDXJ")
@differs(
    "a given blocklist that does not exist is left out with a warning",
    now="an error; the default one may be missing",
    why="it may be the list of what must not be shown",
)
@works("`--jobs`: default all available CPU cores")
def test_what_becomes_of_damage_and_missing_files(data: Path) -> None:
    places = [
        f"--{name}={data / 'data' / where}" for name, where in (("collections-dir", "collections"), ("temp-dir", "t"))
    ]
    command = ("cdxj-index-collection", "AWP999", *places, "--output-dir", data / "out")
    torn = data / "data/collections/AWP999/torn.warc.gz"
    torn.write_bytes(put_warc(data / "whole.warc.gz", "http://c.pt/", "http://d.pt/").read_bytes()[:-20])
    done = dropin(*command)
    assert done.code == 3
    assert re.search(rf"Parallel jobs: +{os.cpu_count()}\n", done.out.decode())
    assert keys(data / "out/AWP999") == ["pt,a)/", "pt,b)/", "pt,c)/"]
    assert "torn.warc.gz" in (data / "out/AWP999/rejected/index.jsonl").read_text()
    assert dropin(*command, "--no-compress").code == 3
    flat = (data / "out/AWP999/AWP999.cdxj").read_bytes().splitlines()
    assert [each.split(b" ")[0] for each in flat] == [b"pt,a)/", b"pt,b)/", b"pt,c)/"]
    assert dropin(*command, "--blocklist", data / "nowhere").code == 1


@works("Compressed shards: gzip members, one for each block")
def test_a_shard_is_gzip(tmp_path: Path) -> None:
    assert dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", tmp_path / "X", "-n", "2", stdin=ALL).code == 0
    assert gzip.decompress((tmp_path / "X/X.cdx.gz").read_bytes()) == ALL
    assert WHEN.encode() in (tmp_path / "X/X.idx").read_bytes()
