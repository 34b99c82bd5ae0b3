"""The tutorial, typed from its first command to its last, by somebody who has the wheel and not this repository."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.docs.installed import ROOT, build_wheel, install, install_with_dependencies
from tests.docs.typed import Outcome, Step, free_ports, missing_line, outcomes, steps_of, type_in, with_free_ports

PAGE = ROOT / "docs" / "tutorial.md"
WEB, SERVER = 9080, 8080  # the ports that the page names


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("machine") / "venv")


def clean(programs: Path, home: Path) -> dict[str, str]:
    """Nothing of this process's environment that could lead back here."""
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TMPDIR")}
    return {**kept, "HOME": str(home), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "PYTHONSAFEPATH": "1"}


def test_the_wheel_has_all_that_belongs_to_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    kept = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    files = [ROOT / name for name in kept.splitlines()] or [path for path in source.rglob("*") if path.is_file()]
    wanted = {
        path.relative_to(source).as_posix() for path in files if path.exists() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert wanted <= names, sorted(wanted - names)
    assert {Path(name).suffix for name in names} >= {".py", ".html", ".css", ".js", ".svg", ".lua", ".typed"}
    assert not any("test_" in name or name.startswith(("tests", "benchmarks")) for name in names)


def test_what_is_imported_is_the_wheel(programs: Path, tmp_path: Path) -> None:
    code = "import sys, webmill, webmill.cli.main; print(webmill.__file__); print(*sys.path, sep='\\n')"
    command = [str(programs / "python"), "-c", code]
    ended = subprocess.run(
        command, cwd=tmp_path, env=clean(programs, tmp_path), capture_output=True, text=True, check=True
    )
    place, *path = ended.stdout.splitlines()
    assert Path(place).is_relative_to(programs.parent)
    assert str(ROOT / "src") not in path
    assert str(ROOT) not in path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_that_the_tutorial_says_happens(programs: Path, tmp_path: Path) -> None:
    """But for the demo, which has a test of its own and takes as long as all the rest."""
    follow([step for step in tutorial() if "demo" not in step.command], programs, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_it_happens_with_nothing_but_what_the_wheel_asks_for(wheel: Path, tmp_path: Path) -> None:
    """No extras, nothing of the tests' environment; the demo, too."""
    try:
        programs = install_with_dependencies(wheel, tmp_path / "venv")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no packages to install: {error.stderr}")
    follow(tutorial(), programs, tmp_path)


def tutorial() -> list[Step]:
    ports = free_ports(3)  # the server takes a second one for archived pages
    page = with_free_ports(PAGE.read_text(), {WEB: ports, SERVER: ports + 1})
    return steps_of(page)


def follow(steps: list[Step], programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    ended = type_in(steps, folder=folder, environment=clean(programs, tmp_path), seconds=500)
    assert len(ended) > 20
    wrong = [outcome for outcome in ended if outcome.flaw()]
    assert not wrong, "\n\n".join(map(str, wrong))


# --- the typist itself ---------------------------------------------------------------------------------------------


def test_a_wrong_page_is_found(tmp_path: Path) -> None:
    page = "```console\n$ echo one; echo two 2\n…\ntwo …\n$ false\n$ echo three\nfour\n```\n"
    folder = tmp_path / "here"
    folder.mkdir()
    ended = type_in(steps_of(page), folder=folder, environment=dict(os.environ), seconds=60)
    assert [outcome.flaw() for outcome in ended] == ["", "exit code 1", "does not say: four"]


def test_a_step_that_never_ends_is_named(tmp_path: Path) -> None:
    step = Step("sleep 1000", ())
    assert outcomes([step], "=== typed 0\n")[0].flaw() == "exit code unknown: it did not end"
    assert Outcome(step, "", ()).flaw()


def test_stated_lines_must_come_in_their_order() -> None:
    assert missing_line(("a", "c"), ("a", "b", "c")) == ""
    assert missing_line(("c", "a"), ("a", "b", "c")) == "a"
    assert missing_line(("… of 7",), ("3 of 7",)) == ""
    assert missing_line(("… of 7",), ("3 of 8",)) == "… of 7"
