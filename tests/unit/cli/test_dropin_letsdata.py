"""`letsdata` of `webmill dropin`, without its runs in the background: the reference test has those."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.datasets import write_triple
from tests.unit.cli.command import dropin, webmill
from tests.unit.commoncrawl.triples import Spec, make_triple
from tests.unit.compat.letsdata_descriptions import write


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset that was run: one task done with a damaged page, one failed."""
    monkeypatch.chdir(tmp_path)
    triple = make_triple([Spec("a"), Spec("b"), Spec("c")])
    start, _ = triple.places["b"][next(iter(triple.places["b"]))][1]
    damaged = triple.replacing(
        next(iter(triple.places["b"])), triple.warc[: start + 40] + b"\0" * 30 + triple.warc[start + 70 :]
    )
    line = write_triple(tmp_path / "in", "f", damaged)
    contents = f"{line}\nWARC:none.warc.gz|WAT:none.wat|WET:none.wet"
    file = write(
        tmp_path,
        readConnector={"bucketName": "in/"},
        writeConnector={"connectorDestination": "S3"},
        computeEngine={"memoryLimitInMegabytes": 0},
        manifestFile={"manifestFileS3Uri": None, "fileContents": contents},
    )
    assert webmill("dataset", "create", file).code == 0
    webmill("-q", "dataset", "run", "CommonCrawl1", "--executor", "inline")
    return tmp_path


def letsdata(*words: str) -> Any:
    ended = dropin("letsdata", *words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out) if ended.out else ended.err


def test_everything_is_shown_as_json(place: Path) -> None:
    (dataset,) = letsdata("datasets", "list")
    assert (dataset["datasetName"], dataset["datasetStatus"], dataset["tasks"]["failed"]) == (
        "CommonCrawl1",
        "failed",
        1,
    )
    view = letsdata("datasets", "view", "--datasetName", "CommonCrawl1")
    assert view["computeEngine"]["computeEngineType"] == "Lambda"
    done, failed = letsdata("tasks", "list", "--datasetName", "CommonCrawl1")
    assert (done["taskStatus"], failed["taskStatus"], failed["files"]["WARC"]) == ("done", "failed", "none.warc.gz")
    errors = letsdata("errors", "list", "--datasetName", "CommonCrawl1", "--prettyPrint")
    assert len(errors) == done["errors"] > 0
    assert {error["recordType"] for error in errors} <= {"WARC_ERROR", "WAT_ERROR", "WET_ERROR"}


def test_what_is_not_running_is_not_stopped_and_may_be_deleted(place: Path) -> None:
    assert "is not running" in letsdata("tasks", "stop", "--datasetName", "CommonCrawl1")
    assert "deleted" in letsdata("datasets", "delete", "--datasetName", "CommonCrawl1")
    assert letsdata("datasets", "list") == []
    assert dropin("letsdata", "datasets", "view", "--datasetName", "CommonCrawl1").code == 1


def test_the_wrong_words_are_answered_with_a_sentence(tmp_path: Path) -> None:
    assert dropin("letsdata", "datasets", "create").code == 2
    made = dropin("letsdata", "datasets", "create", "--configFile", tmp_path / "none.json")
    assert (made.code, "no dataset file" in made.err) == (1, True)
