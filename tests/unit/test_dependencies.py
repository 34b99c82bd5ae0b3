"""Pinned dependencies: known advisories, from a file; licences, from what is installed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest
from requirements import advisories

ROOT = Path(__file__).parents[2]
licences = import_module("docs.dependencies")
OLD = {"answered": "2026-01-02", "advisories": []}
BUG = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fixed_in": ["3"]}


def page(version: str, *found: dict[str, object]) -> str:
    return json.dumps({"info": {"version": version}, "vulnerabilities": found})


class PackageIndex(BaseHTTPRequestHandler):
    pages: ClassVar = {
        "/pypi/alone/1/json": page(
            "1", BUG | {"withdrawn": None, "summary": "…"}, BUG | {"id": "P", "withdrawn": "2020"}
        ),
        "/pypi/newest/2/json": "<html>a mirror without such pages</html>",
        "/pypi/newest/json": page("2"),
        "/pypi/older/json": page("9"),
    }

    def do_GET(self) -> None:
        found = self.pages.get(self.path)
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write((found or "").encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def index() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), PackageIndex) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/pypi"
        server.shutdown()


def refresh(folder: Path, index: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "requirements" / "advisories.py", f"--index={index}", f"--folder={folder}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_pinned_version_was_asked_about() -> None:
    entries = advisories.read_entries(advisories.FILE)
    pins = {str(pin) for pin in advisories.pins_of(ROOT / "requirements")}
    assert len(pins) > 200
    assert pins == set(entries), "run `make lock`, or `python requirements/advisories.py`"
    dated = [entry for entry in entries.values() if entry["answered"]]
    assert len(dated) > len(pins) * 0.8, "an index that answers for so little proves nothing"


def test_no_pinned_version_has_a_known_advisory() -> None:
    entries = advisories.read_entries(advisories.FILE)
    assert advisories.open_advisories(entries) == []
    known = {one["id"] for entry in entries.values() for one in entry["advisories"]}
    assert set(advisories.ACCEPTED) <= known, "accepted, but no pin has it"


def test_answers_are_kept_with_their_day_and_an_advisory_is_an_error(tmp_path: Path, index: str) -> None:
    (tmp_path / "run.txt").write_text(
        "alone==1 \\\n    --hash=x\nnewest==2 ; python_version < '4' \\\nolder==3\nlost==4\n"
    )
    (tmp_path / "advisories.json").write_text(json.dumps({"older==3": OLD, "gone==1": OLD}))
    ended = refresh(tmp_path, index)
    found = advisories.read_entries(tmp_path / "advisories.json")
    assert found["alone==1"]["advisories"] == [BUG]
    assert found["newest==2"]["advisories"] == []
    assert found["newest==2"]["answered"]
    assert found["older==3"] == OLD
    assert found["lost==4"] == {"answered": None, "advisories": []}
    assert "gone==1" not in found
    assert ended.returncode == 1
    assert "alone==1: PYSEC-1 (CVE-1), fixed in 3" in ended.stderr
    assert "no answer for older==3" in ended.stderr


def test_an_index_that_does_not_answer_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("alone==1\n")
    (tmp_path / "advisories.json").write_text('{"another==1": {"answered": "2026-01-02", "advisories": []}}')
    before = (tmp_path / "advisories.json").read_bytes()
    ended = refresh(tmp_path, "http://127.0.0.1:1/pypi")
    assert (ended.returncode, (tmp_path / "advisories.json").read_bytes()) == (0, before)
    assert "answers for none of 1 pins: advisories.json is kept as it is" in ended.stderr


def test_no_dependency_has_a_copyleft_licence() -> None:
    found = licences.dependencies()
    assert {"numpy", "pycld2", "lxml", "certifi", "markupsafe"} <= {one.name for one in found}
    assert [line for one in found if (line := licences.objection(one))] == []
    assert set(licences.ACCEPTED) <= {one.name for one in found}, "accepted, but no longer a dependency"


@pytest.mark.parametrize(
    ("licence", "name", "refused"),
    [
        ("AGPL-3.0", "surt", True),
        ("GPL-2.0-only", "certifi", True),
        ("MPL-2.0", "certifi", False),
        ("MPL-2.0", "another", True),
        ("MIT AND LGPL-3.0-only", "another", True),
        ("GPL-3.0-only OR MIT", "another", False),
        ("unknown", "another", True),
    ],
)
def test_a_licence_is_refused_unless_it_is_known_to_be_permissive(licence: str, name: str, refused: bool) -> None:
    assert bool(licences.objection(licences.Dependency(name, licence, "webmill", ""))) is refused


def test_judges_under_agpl_would_be_refused() -> None:
    """The check, on a package that is installed for tests alone."""
    said = licences.licence_of(licences.distribution("surt").metadata)
    assert licences.objection(licences.Dependency("surt", said, "webmill", "")), said
