"""The small files of a crawl carry their checksums, and it does not go on without a file that it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.collection import Collection
from webmill.crawl import stored_settings
from webmill.crawl.layout import (
    CrawlFolder,
    CrawlLayout,
    load_or_create_layout,
    lost_files,
    read_layout,
    read_seeds,
    record_files,
    refuse_lost_files,
    write_layout,
    write_seeds,
)
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.status_file import StatusFile, read_status
from webmill.errors import BadInput, Misconfigured, WebmillError


@pytest.fixture
def folder(tmp_path: Path) -> CrawlFolder:
    (tmp_path / "frontier" / "shard-00").mkdir(parents=True)
    folder = CrawlFolder(Collection(tmp_path, "news"))
    write_layout(folder, CrawlLayout(2, "news"))
    write_seeds(folder.seeds, ["https://a.example/", "https://b.example/"])
    stored_settings.store({"scope": "host", "delay": 2.5}, folder.path)
    StatusFile(folder.path, name="news", started=1.0, clock=lambda: 2.0).write(CrawlProgress(shard=0), end="finished")
    for name in ("gates.sqlite", "mail-00.sqlite", "shard-00/state.sqlite", "shard-00/quota.sqlite"):
        (folder.path / name).write_bytes(b"SQLite")
    return folder


def read_all(folder: CrawlFolder) -> object:
    flags = stored_settings.parse_stored(stored_settings.read_stored(folder.path), source="flags.json")
    return read_layout(folder), read_seeds(folder.seeds), flags, read_status(folder.path)


def test_every_flipped_bit_of_a_small_file_is_an_error_that_names_it_or_changes_nothing(folder: CrawlFolder) -> None:
    whole = read_all(folder)
    for name in ("crawl.json", "seeds.txt", "flags.json", "status.json"):
        path = folder.path / name
        data, refused = path.read_bytes(), list[str]()
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:
                assert read_all(folder) == whole, f"bit {bit} of {name}"
            except WebmillError as error:
                refused.append(str(error))
        path.write_bytes(data)
        assert len(refused) > 4 * len(data)
        assert all(name in message for message in refused)


def test_a_list_of_seeds_that_was_cut_is_refused(folder: CrawlFolder) -> None:
    data = folder.seeds.read_bytes()
    for length in range(1, len(data)):
        folder.seeds.write_bytes(data[:length])
        with pytest.raises(BadInput, match=r"seeds\.txt"):
            read_seeds(folder.seeds)


def test_files_of_before_have_no_checksums_and_are_read(folder: CrawlFolder) -> None:
    folder.layout.write_text('{"shards":2,"name":"news","version":1,"on_nodes":false}\n')
    folder.seeds.write_text("https://a.example/\nhttps://b.example/\n")
    (folder.path / "flags.json").write_text('{\n  "scope": "host"\n}\n')
    assert read_layout(folder) == CrawlLayout(2, "news")
    assert read_seeds(folder.seeds) == ["https://a.example/", "https://b.example/"]
    assert stored_settings.read_stored(folder.path) == {"scope": "host"}
    refuse_lost_files(folder)


@pytest.mark.parametrize("harm", ["deleted", "emptied"])
def test_a_crawl_does_not_go_on_without_a_file_that_it_had(folder: CrawlFolder, harm: str) -> None:
    record_files(folder)
    refuse_lost_files(folder)
    names = read_layout(folder).files
    assert set(names) > {"flags.json", "seeds.txt", "gates.sqlite", "mail-00.sqlite", "shard-00/quota.sqlite"}
    for name in names:
        path = folder.path / name
        data = path.read_bytes()
        path.unlink()
        if harm == "emptied":
            path.touch()
        assert lost_files(folder) == [path]
        with pytest.raises(Misconfigured, match=f"{name} is missing or empty.*--lost-files rebuild"):
            refuse_lost_files(folder)
        path.write_bytes(data)


def test_shards_without_their_layout_are_not_divided_anew(folder: CrawlFolder) -> None:
    folder.layout.unlink()
    with pytest.raises(Misconfigured, match=r"crawl\.json is missing"):
        load_or_create_layout(folder, 3)
