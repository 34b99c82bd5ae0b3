"""An index whose lines lead out of the archive: nothing there is read (I06)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.cdx_samples import put_index
from tests.serve.warc_fixtures import response, serve_both_origins

WHEN, SECRET = "20240101000000", b"not for strangers"
RECORD = response("https://site.example/", WHEN, SECRET)
PLACES: dict[str, dict[str, str]] = {  # {outside}: a whole record, where nobody may read it
    "up": {"filename": "../outside.warc.gz"},
    "up-again": {"filename": "crawl-data/../../outside.warc.gz"},
    "absolute": {"filename": "{outside}"},
    "link": {"filename": "crawl-data/link"},
    "folder-link": {"filename": "crawl-data/linked/outside"},
    "url": {"filename": "{url}/outside.warc.gz"},
    "file-url": {"filename": "file://{outside}"},
    "nul": {"filename": "crawl-data/good.warc.gz\0"},
    "before": {"offset": "-5"},
    "behind": {"offset": "99999999"},
    "endless": {"length": "100000000000000000000"},
    "nothing": {"length": "0"},
    "words": {"offset": "zero"},
}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def test_no_line_of_an_index_leads_out_of_the_archive(tmp_path: Path, listener: socket.socket) -> None:
    root, outside = tmp_path / "collection", tmp_path / "outside.warc.gz"
    (root / "crawl-data").mkdir(parents=True)
    for file in (outside, root / "crawl-data" / "good.warc.gz", tmp_path / "outside"):
        file.write_bytes(RECORD)
    (root / "crawl-data" / "link").symlink_to(outside)  # only what is named as an archive is meant to be one
    (root / "crawl-data" / "linked").symlink_to(tmp_path)
    meant = {"outside": str(outside), "url": f"http://127.0.0.1:{listener.getsockname()[1]}"}
    good = {"filename": "crawl-data/good.warc.gz", "offset": "0", "length": str(len(RECORD)), "status": "200"}
    lines = []
    for name, place in {"good": {}, **PLACES}.items():
        fields = good | {key: value.format(**meant) for key, value in place.items()}
        line = json.dumps({"url": f"https://site.example/{name}", "mime": "text/html", **fields})
        lines.append(f"example,site)/{name} {WHEN} {line}\n".encode())
    put_index(root, sorted(lines))
    with serve_both_origins(root) as (own, replay):
        for form in ("", "warc_"):
            assert own.get(f"/raw/{WHEN}{form}/https://site.example/good").status_code == 200
        assert SECRET in own.get(f"/raw/{WHEN}/https://site.example/good").content
        for name in PLACES:
            for client, path in ((own, f"/raw/{WHEN}"), (own, f"/raw/{WHEN}warc_"), (replay, f"/web/{WHEN}")):
                answer = client.get(f"{path}/https://site.example/{name}")
                assert (name, path, answer.status_code) == (name, path, 404)
                assert SECRET not in answer.content
                assert str(root) not in answer.text
    with pytest.raises(BlockingIOError):
        listener.accept()
