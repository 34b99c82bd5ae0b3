"""Archives of others in the zone, and ours in pywb: a multi-WACZ in Browsertrix's form, added and replayed."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, REPLAY
from tests.serve.living_web import API, CDN, HOST, WHEN, records
from tests.serve.sample_collection import NAME, run
from tests.serve.warc_fixtures import collection, record
from tests.unit.index.test_pywb_reads_our_zipnum import get, wayback
from webmill.serve.app import replay_application
from webmill.serve.open_site import open_site
from webmill.serve.replay.labels import read_origin
from webmill.settings import Settings

ZONE, VIEW = "http://replay.localhost:8081", "http://view.replay.localhost:8080"


def browser_records() -> Iterable[bytes]:
    """The living web with what Browsertrix writes beside responses and requests."""
    yield from records()
    info = json.dumps({"pageid": "1", "url": f"{HOST}/location/", "urls": {}, "ts": "2024-05-06T07:08:09Z"}).encode()
    for kind, body in (("pageinfo", info), ("text", b"text"), ("view", b"\x89PNG"), ("thumbnail", b"\xff\xd8")):
        yield record("resource", f"urn:{kind}:{HOST}/location/", WHEN, body, (("Content-Type", "application/json"),))


def wacz(records: Iterable[bytes]) -> bytes:
    files = {
        "archive/rec-0001-browser.warc.gz": b"".join(records),
        "pages/pages.jsonl": b'{"format": "json-pages-1.0", "id": "pages"}\n',
        "indexes/index.cdx": b"",
    }
    return packed(files, profile="data-package")


def packed(files: dict[str, bytes], *, profile: str) -> bytes:
    listed = [
        {
            "name": name.rpartition("/")[2],
            "path": name,
            "hash": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "bytes": len(data),
        }
        for name, data in files.items()
    ]
    package = json.dumps({"profile": profile, "wacz_version": "1.1.1", "resources": listed}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {**files, "datapackage.json": package}.items():
            archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection made of a multi-WACZ of two."""
    folder = tmp_path_factory.mktemp("wacz")
    every = list(browser_records())
    parts = {f"part-{number}.wacz": wacz(every[number::2]) for number in range(2)}
    (folder / "multi.wacz").write_bytes(packed(parts, profile="multi-wacz-package"))
    root = folder / "collection"
    run("init", root)
    run("add", root, folder / "multi.wacz")
    run("index", root, "--post-append")
    return root


def test_a_multi_wacz_is_replayed_in_the_zone(added: Path) -> None:
    site = open_site(
        added, Settings(), address=ADDRESS, replay_address=REPLAY, zone_address=ZONE, view_address=VIEW, secret=b"s"
    )
    assert site.zone

    def ask(url: str, destination: str = "empty") -> str:
        assert site.zone
        base = site.zone.origin_of(WHEN, read_origin(url))
        with TestClient(replay_application(site), base_url=base, follow_redirects=False) as client:
            return client.get(site.zone.address_of(WHEN, url), headers={"Sec-Fetch-Dest": destination}).text

    assert "__wmLocation(location).href" in ask(f"{HOST}/location/", "iframe")
    assert ask(f"{API}/data.json") == '{"value": "api"}'
    assert ask(f"{CDN}/lib.js", "script") == "window.lib = 'lib'"


def test_pywb_replays_what_a_browser_captured(judges: Path, tmp_path: Path) -> None:
    root = collection(tmp_path / "ours", browser_records(), "--post-append")
    index = root / "cc-index" / "collections" / NAME / "indexes" / "cluster.idx"
    (tmp_path / "config.yaml").write_text(
        f"collections:\n  ours:\n    index_paths: {index}\n    archive_paths: {root}/\n"
    )
    with wayback(judges, tmp_path) as url:
        assert get(f"{url}/ours/{WHEN}id_/{API}/data.json") == b'{"value": "api"}'
        posted = get(f"{url}/ours/cdx?url={API}/post&matchType=prefix&output=json").splitlines()
        assert {json.loads(line)["requestBody"] for line in posted} == {"q=one", "q=two", "q=form"}
