"""Completion as a shell has it: its script in a real bash, asked for words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.sample_collection import NAME
from tests.unit.cli.command import webmill
from webmill.cli.completion_table import make_table
from webmill.cli.shell_completion import FILE

ASK = """
{script}
cd {place}
compopt() {{ echo "compopt $2"; }}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_webmill_completion webmill
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script() -> str:
    ended = webmill("completion", "bash")
    assert ended.code == 0
    return ended.out.decode()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("webmill ind", ["index"]),
        ("webmill publish d", ["documents", "diff"]),
        ("webmill index --pro", ["--processes"]),
        ("webmill crawl x --scope ''", ["host", "domain", "path", "any"]),
        ("webmill run x --stage p", ["publish"]),
        ("webmill -q --log-format ''", ["text", "json"]),
        ("webmill search town --sort n", ["newest"]),  # short for `search find`
        ("webmill publish rollback town l", ["live"]),
        ("webmill publish show town 00000001", ["00000001-"]),
        ("webmill index town --name ''", [NAME]),
        ("webmill status t", ["compopt dirnames"]),
        ("webmill warc check t", ["compopt default"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bash_completes(words: str, expected: list[str], script: str, sample_root: Path, tmp_path: Path) -> None:
    (tmp_path / "webmill").write_text(f'#!/bin/sh\nexec {sys.executable} -m webmill "$@"\n')
    (tmp_path / "webmill").chmod(0o755)
    program = ASK.format(script=script, place=sample_root.parent, words=words.replace("town", sample_root.name))
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    found = [line for line in ended.stdout.splitlines() if line]
    assert len(found) == len(expected), (found, ended.stderr)
    assert all(line.startswith(word) for line, word in zip(found, expected, strict=True)), found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str) -> None:
    ended = webmill("completion", shell)
    assert (ended.code, ended.err) == (0, "")
    assert f"_WEBMILL_COMPLETE={shell}_complete".encode() in ended.out


def test_the_words_are_those_of_the_commands() -> None:
    assert FILE.read_text() == make_table(), "run `make docs`"


def test_no_command_is_imported_for_an_answer() -> None:
    code = """
import os, sys
os.environ |= {"_WEBMILL_COMPLETE": "bash_complete", "COMP_WORDS": "webmill crawl --", "COMP_CWORD": "2"}
from webmill.cli.entry import main
try:
    main()
except SystemExit:
    print(*(name for name in sys.modules if name.startswith("webmill.")), file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "--contact" in ended.stdout
    assert set(ended.stderr.split()) == {"webmill.cli", "webmill.cli.entry", "webmill.cli.shell_completion"}
