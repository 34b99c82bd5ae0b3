"""The old names for tools of lines: their flags, their words, and right where the originals are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.command import dropin
from tests.unit.index.samples import capture, write
from webmill.cli.dropin import OLD_NAMES

LINES = [capture(f"com,h{letter})/", status="200") for letter in "abcdef"]
ALL = b"".join(LINES)


# --- merge-flat-cdxj -------------------------------------------------------------------------------------------------


def test_merge_says_what_the_original_says_when_it_is_asked_to(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.cdxj", LINES[::2])
    write(folder / "b.cdxj", LINES[1::2])
    write(folder / "c.tmp", [b"x\n"])
    done = dropin("merge-flat-cdxj", tmp_path / "out", folder, "--exclude", "*.tmp", "-v")
    assert done.code == 0
    assert (tmp_path / "out").read_bytes() == ALL
    assert done.err.splitlines() == [
        f"[DISCOVER] Scanning directory: {folder}",
        "[INCLUDE] a.cdxj",
        "[INCLUDE] b.cdxj",
        "[EXCLUDE] c.tmp (matches: *.tmp)",
        f"[DISCOVER] Directory {folder}: 3 found, 1 excluded, 2 included",
        "[SUMMARY] Total: 3 found, 1 excluded, 2 included",
        "[MERGE] Starting merge of 2 files...",
        "[MERGE] Complete: 6 lines written",
    ]


@pytest.mark.parametrize("flags", [[], ["-q"], ["-v", "-q"]])
def test_merge_is_silent_unless_asked_and_quiet_wins(tmp_path: Path, flags: list[str]) -> None:
    done = dropin("merge-flat-cdxj", "-", write(tmp_path / "a", LINES), *flags)
    assert (done.code, done.out, done.err) == (0, ALL, "")


def test_merge_of_nothing_is_code_1_and_the_known_words(tmp_path: Path) -> None:
    done = dropin("merge-flat-cdxj", "-", write(tmp_path / "a", LINES), "--exclude", "a")
    assert done.code == 1
    assert "[ERROR] No files to merge after applying exclusions" in done.err


def test_merge_does_not_pass_over_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The original does, silently."""
    done = dropin("merge-flat-cdxj", tmp_path / "out", write(tmp_path / "a", LINES), tmp_path / "b")
    assert done.code == 1
    assert f"no file or folder {tmp_path / 'b'}" in done.err
    assert not (tmp_path / "out").exists()


def test_merge_does_not_glue_lines(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1", [LINES[0].rstrip()]), write(tmp_path / "2", [LINES[1].rstrip()])
    assert dropin("merge-flat-cdxj", "-", one, two).lines == LINES[:2]


# --- addfield-to-flat-cdxj -------------------------------------------------------------------------------------------


def test_addfield_counts_as_the_original_and_ends_well_with_bad_lines(tmp_path: Path) -> None:
    text = LINES[0] + b"\n" + b"com,a)/ 20240101000000\n" + b"com,b)/ 20240101000000 {bad\n" + b"nothing\n"
    done = dropin("addfield-to-flat-cdxj", "-i", "-", "-f", "collection=X", "-f", "n=1", stdin=text)
    assert done.code == 0
    assert done.lines[0].endswith(b'"status": "200", "collection": "X", "n": "1"}\n')
    assert done.lines[1:] == [
        b"\n",
        b'com,a)/ 20240101000000 {"collection": "X", "n": "1"}\n',
        b"com,b)/ 20240101000000 {bad\n",
        b"nothing\n",
    ]
    assert done.err == "# Processed 2 lines, skipped 3 lines (total: 5)\n"


def test_addfield_refuses_a_field_without_value_with_code_1() -> None:
    done = dropin("addfield-to-flat-cdxj", "-i", "-", "-f", "novalue", stdin=ALL)
    assert (done.code, done.err) == (1, "Error: Invalid field format 'novalue' (expected key=value)\n")


def test_the_blocklist_still_matches_after_addfield(tmp_path: Path) -> None:
    """The original writes JSON anew without spaces, and its own users' rules then match nothing."""
    rule = rb'^\S* [0-9]{14} \{"url": "(.*://)?(www.)?com,hb' + b"\n"
    added = dropin("addfield-to-flat-cdxj", "-i", "-", "-f", "collection=X", stdin=ALL)
    done = dropin("filter-blocklist", "-i", "-", "-b", write(tmp_path / "rules", [rule]), stdin=added.out)
    assert done.err == "# Kept 5 lines, blocked 1 lines (16.7%)\n"


# --- filter-blocklist ------------------------------------------------------------------------------------------------

FOUR = [
    b'pt,a)/1 20200101000000 {"url": "http://a.pt/1", "mime": "text/html"}\n',
    b'pt,example)/files/2/x.pdf 20200101000000 {"url": "http://www.example.pt/files/2/x.pdf", "mime": "a/pdf"}\n',
    b'pt,example)/files/3/x.pdf 20200101000000 {"url": "http://www.example.pt/files/3/x.pdf", "mime": "a/pdf"}\n',
    b'pt,z)/ 20200101000000 {"url": "http://z.pt/", "mime": "text/html"}\n',
]
ARQUIVO = rb'^\S* [0-9]{14} \{"url": "(.*://)?(www.)?example.pt/files/2/x.pdf(\S)*"' + b"\n"


def test_the_shape_of_rule_that_is_in_use_blocks_one_of_four(tmp_path: Path) -> None:
    done = dropin("filter-blocklist", "-i", "-", "-b", write(tmp_path / "r", [ARQUIVO]), stdin=b"".join(FOUR))
    assert (done.code, done.lines) == (0, [FOUR[0], *FOUR[2:]])
    assert done.err == "# Kept 3 lines, blocked 1 lines (25.0%)\n"  # of stdin the original always says 0


def test_an_empty_blocklist_warns_and_keeps_all(tmp_path: Path) -> None:
    """The original deletes everything at a blank line."""
    done = dropin("filter-blocklist", "-i", "-", "-b", write(tmp_path / "r", [b"# none\n", b"\n"]), stdin=ALL)
    assert (done.code, done.out) == (0, ALL)
    assert done.err.startswith("Warning: No patterns loaded from blocklist\n# Kept 6 lines, blocked 0 lines (0.0%)")


def test_a_bad_rule_is_an_error_with_its_line(tmp_path: Path) -> None:
    """The original outputs nothing and ends well."""
    rules = write(tmp_path / "r", [b"^pt,\n", b"a{2,1}\n"])
    done = dropin("filter-blocklist", "-i", "-", "-b", rules, "-o", tmp_path / "out", stdin=ALL)
    assert done.code == 1
    assert f"{rules}:2" in done.err
    assert not (tmp_path / "out").exists()


def test_a_lone_parenthesis_is_a_letter_as_in_grep(tmp_path: Path) -> None:
    done = dropin("filter-blocklist", "-i", "-", "-b", write(tmp_path / "r", [b"^com,hc)/\n"]), stdin=ALL)
    assert done.lines == [*LINES[:2], *LINES[3:]]


# --- filter-excessive-urls -------------------------------------------------------------------------------------------

MANY = b"".join(sorted([*LINES, *(capture("com,hc)/", f"2024020100000{second}") for second in range(4))]))


def test_excessive_urls_are_found_removed_and_both_over_stdin(tmp_path: Path) -> None:
    """The original refuses `auto -i -`, which its own pipeline says."""
    found = dropin("filter-excessive-urls", "find", "-i", "-", "-n", "4", stdin=MANY)
    assert (found.code, found.out, found.err) == (0, b"com,hc)/ 5\n", "# Found 1 URLs with > 4 occurrences\n")
    listed = write(tmp_path / "list", [b"# c\n\n", found.out, b"com,nowhere)/\n"])
    removed = dropin("filter-excessive-urls", "remove", "-i", "-", "-b", listed, stdin=MANY)
    assert removed.err == "# Loaded 2 URLs to filter\n# Kept 5 lines, filtered 5 lines (50.0%)\n"
    auto = dropin("filter-excessive-urls", "auto", "-i", "-", "-n", "4", stdin=MANY)
    assert auto.lines == removed.lines == [line for line in LINES if not line.startswith(b"com,hc")]


@pytest.mark.parametrize(("threshold", "kept"), [("5", 10), ("4", 5), ("0", 0)])
def test_the_threshold_itself_is_kept(threshold: str, kept: int) -> None:
    assert len(dropin("filter-excessive-urls", "auto", "-i", "-", "-n", threshold, stdin=MANY).lines) == kept


def test_without_a_command_there_is_help_and_code_1() -> None:
    done = dropin("filter-excessive-urls")
    assert done.code == 1
    assert b"Commands:" in done.out


# --- cdxj-extract-field ----------------------------------------------------------------------------------------------

FIELDS = b"""com,a)/ 20240101000000 {"status": "200", "n": 1, "t": true, "e": null, "u": "\xc3\xa9"}

com,b)/ 20240101000000
com,c)/ 20240101000000 {bad
com,d)/ 20240101000000 {"status": "404"}
"""


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        (["-f", "status"], b'"200"\n"404"\n'),
        (["-f", "status", "-r"], b"200\n404\n"),
        (["-f", "status", "-r", "-d", "none"], b"200\nnone\n404\n"),
        (["-f", "status", "-r", "-d", "none", "-s"], b"200\n404\n"),
        (["-f", "n"], b"1\n"),
        (["-f", "t", "-r"], b"true\n"),
        (["-f", "e", "-r"], b"null\n"),
        (["-f", "u"], b'"\xc3\xa9"\n'),
        (["-f", "none"], b""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_field_is_printed_as_json_or_raw(flags: list[str], printed: bytes) -> None:
    done = dropin("cdxj-extract-field", *flags, stdin=FIELDS)
    assert (done.code, done.out, done.err) == (0, printed, "")


def test_the_counts_of_extract_field() -> None:
    done = dropin("cdxj-extract-field", "-f", "status", "-s", "-v", stdin=FIELDS)
    assert done.err == "Processed: 4 | Extracted: 2 | Skipped: 1 | Errors: 1\n"


# --- arclist-to-path-index -------------------------------------------------------------------------------------------


def test_an_arclist_becomes_name_and_path_in_its_order(tmp_path: Path) -> None:
    text = b"# a list\n\nhttps://example.com/path/z.warc.gz\n/mnt/a.warc.gz\n"
    done = dropin("arclist-to-path-index", "-i", "-", stdin=text)
    assert done.lines == [b"z.warc.gz\thttps://example.com/path/z.warc.gz\n", b"a.warc.gz\t/mnt/a.warc.gz\n"]
    write(tmp_path / "1.txt", [text])
    write(tmp_path / "2.lst", [b"/not/taken\n"])
    done = dropin("arclist-to-path-index", "-d", tmp_path, "--output-separator", "|", "-v")
    assert done.lines[1] == b"a.warc.gz|/mnt/a.warc.gz\n"
    assert done.err == "# Total entries processed: 2\n"


def test_no_entries_are_a_warning_and_code_1() -> None:
    done = dropin("arclist-to-path-index", "-i", "-", stdin=b"# nothing\n")
    assert (done.code, done.err) == (1, "Warning: No entries processed\n")


# --- install ---------------------------------------------------------------------------------------------------------


def test_installed_commands_run_by_their_old_names(tmp_path: Path) -> None:
    import subprocess

    assert dropin("install", tmp_path / "bin").code == 0
    assert {file.name for file in (tmp_path / "bin").iterdir()} == set(OLD_NAMES)
    tool = tmp_path / "bin" / "cdxj-extract-field"
    done = subprocess.run([tool, "-f", "status", "-r"], input=LINES[0], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"200\n", b"")


def test_install_again_replaces_its_own_files_and_never_others(tmp_path: Path) -> None:
    assert dropin("install", tmp_path).code == 0
    assert dropin("install", tmp_path).code == 0
    other = tmp_path / "merge-flat-cdxj"
    other.write_text("#!/bin/sh\necho original\n")
    (tmp_path / "cdxj-search").unlink()
    (tmp_path / "cdxj-search").symlink_to("/nowhere")
    done = dropin("install", tmp_path)
    assert done.code == 1
    assert "merge-flat-cdxj, cdxj-search; nothing was written" in done.err
    assert other.read_text() == "#!/bin/sh\necho original\n"
