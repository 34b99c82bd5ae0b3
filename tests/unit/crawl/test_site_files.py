"""What the files of sites say of the use of their pages is known after a restart."""

from __future__ import annotations

from pathlib import Path

from webmill.crawl.options import UsagePolicy
from webmill.crawl.visit import site_files
from webmill.crawl.visit.site_files import FILE, SiteFiles, SiteFileStore
from webmill.crawl.visit.usage import UsageReader
from webmill.formats.preferences.rsl import read_rsl
from webmill.formats.preferences.tdm import read_tdm_file

TDM = read_tdm_file(b'[{"location": "/x", "tdm-reservation": 1, "tdm-policy": "https://a.test/p"}]')
RSL = read_rsl(
    b'<rsl xmlns="https://rslstandard.org/rsl"><content url="/r"><license>'
    b'<prohibits type="usage">ai-train</prohibits></license></content></rsl>'
)


def stored(folder: Path) -> dict[str, SiteFiles]:
    store = SiteFileStore(folder / FILE)
    try:
        return dict(store.read())
    finally:
        store.close()


def write(folder: Path, changes: dict[str, SiteFiles]) -> None:
    store = SiteFileStore(folder / FILE)
    store.write(changes)
    store.close()


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    assert TDM
    assert RSL
    write(tmp_path, {"https://a.test": SiteFiles(TDM, RSL), "https://b.test": SiteFiles(TDM)})
    write(tmp_path, {"https://a.test": SiteFiles((), RSL), "https://b.test": SiteFiles()})
    assert stored(tmp_path) == {"https://a.test": SiteFiles((), RSL)}
    assert UsageReader(UsagePolicy(), known=stored(tmp_path).items()).take_changes() == {}


def test_there_is_an_end_to_it(tmp_path: Path) -> None:
    most = site_files.MOST_ORIGINS
    for start in (0, most):
        write(tmp_path, {f"https://{number}.test": SiteFiles(TDM) for number in range(start, start + 200)})
    write(tmp_path, {f"https://{number}.test": SiteFiles(TDM) for number in range(most)})
    found = list(stored(tmp_path))
    assert len(found) <= most
    assert found[-1] == f"https://{most - 1}.test"


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, {"https://a.test": SiteFiles(TDM)})
    data = bytearray((tmp_path / FILE).read_bytes())
    data[-64:] = b"\xff" * 64
    (tmp_path / FILE).write_bytes(data)
    assert stored(tmp_path) == {}
    write(tmp_path, {"https://a.test": SiteFiles(TDM)})
    assert stored(tmp_path) == {"https://a.test": SiteFiles(TDM)}
