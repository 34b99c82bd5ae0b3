"""What a command deletes or replaces is its own: files that somebody put beside or between them stay (R-D01)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.trust.commands import COMMANDS, DIR
from tests.trust.hostile import Scene
from tests.unit.cli.command import webmill

MINE = "mine.txt"
LOOKALIKES = {  # names that are nearly ours, in folders where things are deleted
    "cdxj": "mine.cdxj",
    "blobs/sha256": "mine.json",
    "documents": "part-mine.jsonl.gz",
    "search": "mine.store",
    "cc-index/collections/TOWN-2024/indexes": "cdx-mine.gz",
    "cc-index/table/cc-main/warc/crawl=TOWN-2024/subset=warc": "part-00000-mine.c000.gz.parquet",
}
OURS_ALONE = (".webmill", "receipts", "output", "errors")  # state, and the parts of a dataset
DESTROYING = {name: use.arguments for name, use in COMMANDS.items() if use.destroys and use.arguments is not None}
NAMED = {name for name, use in COMMANDS.items() if use.destroys and use.arguments is None}


def sprinkle(root: Path) -> dict[Path, bytes]:
    """Put a file of the user's into every folder, and files with names like ours; return them all."""
    made = []
    for name, folders, _ in os.walk(root):
        made.append(Path(name) / MINE)
        folders[:] = [folder for folder in folders if folder not in OURS_ALONE]
    made += [root / folder / name for folder, name in LOOKALIKES.items() if (root / folder).is_dir()]
    for path in made:
        path.write_text(f"{path.name} is mine\n")
    return {path: path.read_bytes() for path in made}


def is_there(files: dict[Path, bytes]) -> list[Path]:
    return [path for path, data in files.items() if not path.is_file() or path.read_bytes() != data]


@pytest.mark.slow
def test_no_command_deletes_or_replaces_what_is_not_its_own(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBMILL_TRUST", str(scene.theirs))
    webmill("index", scene.theirs, "--processes", "1")
    webmill("extract", scene.theirs, "--executor", "inline")
    scene.order_by_function()
    webmill("trust", scene.theirs / "extract" / "theirs")
    mine = sprinkle(scene.theirs)
    for name, arguments in DESTROYING.items():
        scene.use(name, arguments)
        assert is_there(mine) == [], f"{name} has removed or changed what is not its own"


def test_a_search_index_does_not_take_the_place_of_another_folder(scene: Scene) -> None:
    ended = scene.use("search rebuild", (DIR, "--index", str(scene.home)))
    assert ended.code == 1
    assert f"{scene.home / 'latest.json'} was not made by webmill" in ended.err
    assert sorted(path.name for path in scene.home.iterdir()) == ["latest.json", "thesis.txt"]
    ended = scene.use("search update", (DIR, "--index", str(scene.home)))
    assert ended.code == 1
    assert sorted(path.name for path in scene.home.iterdir()) == ["latest.json", "thesis.txt"]


def test_a_search_index_of_ours_is_replaced(scene: Scene) -> None:
    place = scene.theirs.parent / "index"
    for _ in range(2):
        assert scene.use("search rebuild", (DIR, "--index", str(place))).code == 0
    (place / MINE).write_text("mine\n")
    assert scene.use("search rebuild", (DIR, "--index", str(place))).code == 1
    assert (place / MINE).read_text() == "mine\n"


def test_a_folder_that_is_not_a_dataset_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "dataset.json").write_text('{"numbers": [1, 2, 3]}')
    ended = webmill("dataset", "delete", tmp_path / "thesis", "--yes")
    assert ended.code == 1
    assert "is not of a dataset" in ended.err
    assert (tmp_path / "thesis" / "dataset.json").exists()


def test_a_dataset_with_files_of_others_in_it_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.toml").write_text('name = "d"\nmanifest = ["a.warc"]\n')
    assert webmill("dataset", "create", "d.toml").code == 0
    Path("datasets/d", MINE).write_text("mine\n")
    ended = webmill("dataset", "delete", "d", "--yes")
    assert ended.code == 1
    assert f"{MINE} is not a part of the dataset" in ended.err
    Path("datasets/d", MINE).unlink()
    assert webmill("dataset", "delete", "d", "--yes").code == 0
    assert not Path("datasets/d").exists()


@pytest.mark.parametrize("name", ["cdxj zipnum", "cdxj parquet", "dropin flat-cdxj-to-zipnum"])
def test_a_folder_that_is_named_as_output_keeps_what_is_in_it(name: str, scene: Scene, tmp_path: Path) -> None:
    lines = tmp_path / "lines.cdxj"
    lines.write_bytes(b'example,org)/ 20240101000000 {"url": "https://example.org/", "offset": "0", "length": "1"}\n')
    mine = sprinkle(scene.home)
    target = scene.home / "table.parquet" if name == "cdxj parquet" else scene.home
    arguments = ("-i", str(lines), "-o", str(target)) if name.startswith("dropin") else (str(lines), "-o", str(target))
    for _ in range(2):
        scene.use(name, arguments)
        assert is_there(mine) == []
    assert (scene.home / "thesis.txt").read_text() == "years of work\n"


def test_every_command_that_destroys_is_used_by_a_test() -> None:
    """On a collection above, or a filter that writes the file of -o alone, or one of these."""
    tested = {"cdxj zipnum", "cdxj parquet", "dropin flat-cdxj-to-zipnum"}
    elsewhere = {"cdxj paths redis", "dropin letsdata datasets delete"}  # tests/services; as `dataset delete`
    elsewhere |= {"bot pages", "bot rotate"}  # tests/unit/bot
    filters = {name for name in NAMED if COMMANDS[name].destroys.startswith("the file named")}
    assert tested | elsewhere | filters >= NAMED
