"""Crawls in an object store are read at the pace of the settings, as those of a web server are."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.commoncrawl.crawl_storage import limiter_path, open_crawl_storage
from webmill.infra.host_schedule.limiter import limiter_at
from webmill.infra.storage.backends import open_storage
from webmill.settings import CommonCrawlSettings, HttpSettings

pytestmark = pytest.mark.server("s3")


def test_a_bucket_is_read_and_each_request_takes_a_turn(
    s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    open_storage(s3_url).write("paced/crawl-data/X/warc.paths.gz", b"0123456789")
    settings = CommonCrawlSettings(base_url=s3_url, rate=1000)
    crawls = open_crawl_storage(s3_url, http=HttpSettings(), commoncrawl=settings)
    assert crawls.read("paced/crawl-data/X/warc.paths.gz", start=2, length=3) == b"234"
    with crawls.open("paced/crawl-data/X/warc.paths.gz", start=8) as stream:
        assert stream.read() == b"89"
    state = limiter_path(s3_url)
    assert state.is_relative_to(tmp_path)
    assert state.exists()  # nobody has asked without it
    assert limiter_at(state, rate=1000).acquire().number > 3
