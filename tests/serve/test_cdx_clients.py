"""cdx_toolkit, as it is installed, before a running `webmill serve`: finding, estimating, turning pages, fetching."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cdx_toolkit
import pytest
from cdx_toolkit import myrequests

from tests.serve.cdx_samples import make_captures, put_index
from tests.serve.sample_collection import NAME as SAMPLE
from tests.serve.sample_collection import run, visits
from tests.serve.server_process import RunningServer, serving
from webmill.infra.queue.sqlite import SqliteQueue

BIG = "BIG-2024"
LINES = make_captures(3000, seed=8)


@pytest.fixture(scope="module", autouse=True)
def too_early() -> Iterator[None]:
    """It waits three seconds between requests to a host that it does not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(myrequests.retry_info, "127.0.0.1", {"next_fetch": 0, "minimum_interval": 0})
        yield


@pytest.fixture(scope="module")
def small(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(sample_root, tmp_path_factory.mktemp("small") / "errors", "--no-feed", "--rate", "0") as server:
        yield server


@pytest.fixture(scope="module")
def big_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("big")
    put_index(root, LINES, name=BIG, block=100)
    return root


@pytest.fixture(scope="module")
def big(big_root: Path) -> Iterator[RunningServer]:
    with serving(big_root, big_root / "errors", "--no-feed", "--rate", "0") as server:
        yield server


def endpoints(server: RunningServer, name: str) -> list[str]:
    return [f"{server.address}/{path}" for path in (f"{name}-index", f"{name}/cdx", "cdx")]


def test_it_turns_all_pages_to_the_end(big: RunningServer) -> None:
    expected = [line for line in LINES if line.startswith(b"com,") and b'"status": "404"' in line]
    assert len(expected) > 200
    for source in endpoints(big, BIG):
        fetcher = cdx_toolkit.CDXFetcher(source=source)
        found = list(fetcher.iter("*.com", filter=["=status:404"]))
        assert [(capture["urlkey"], capture["offset"]) for capture in found] == [
            (line.split(b" ")[0].decode(), json.loads(line.split(b" ", 2)[2])["offset"]) for line in expected
        ]


def test_what_nobody_has_is_an_empty_list_and_not_an_endless_search(big: RunningServer) -> None:
    for source in endpoints(big, BIG):
        fetcher = cdx_toolkit.CDXFetcher(source=source)
        assert fetcher.get("nowhere.example/") == []
        assert list(fetcher.iter("nowhere.example/*")) == []
        assert list(fetcher.iter("*.com", filter="=status:999")) == []
        assert fetcher.get_size_estimate("nowhere.example/*") == 0


def test_it_estimates_sizes(big: RunningServer) -> None:
    for source in endpoints(big, BIG):
        fetcher = cdx_toolkit.CDXFetcher(source=source)
        blocks = fetcher.get_size_estimate("*.com", as_pages=True)
        assert 10 < blocks <= 30  # of 100 lines each
        assert fetcher.get_size_estimate("*.com") == (blocks - 1) * 3000


def test_limits_periods_and_orders_reach_us(big: RunningServer) -> None:
    fetcher = cdx_toolkit.CDXFetcher(source=f"{big.address}/cdx")
    assert len(list(fetcher.iter("*.com", limit=1234))) == 1234
    within = fetcher.get("*.com", from_ts="2020", to="202006", limit=10_000)
    assert within
    assert all("2020" <= capture["timestamp"] < "202007" for capture in within)
    (nearest, *_) = fetcher.get("*.com", closest="20220101", sort="closest", limit=5)
    assert nearest["timestamp"].startswith(("2021", "2022"))


def test_it_fetches_what_was_captured(small: RunningServer) -> None:
    fetcher = cdx_toolkit.CDXFetcher(source=f"{small.address}/{SAMPLE}-index", warc_download_prefix=small.address)
    bodies = {visit.when: visit.body for visit in visits() if visit.url == "https://town.example/" and not visit.same}
    found = [capture for capture in fetcher.iter("https://town.example/") if capture["mime"] != "warc/revisit"]
    assert {capture["timestamp"]: capture.content for capture in found} == bodies


@pytest.mark.parametrize(
    ("flags", "filters"),
    [
        (("--status", "200"), ["=status:200"]),
        (("--status", "200", "--mime", "text/plain"), ["=status:200", "=mime:text/plain"]),
        (("--mime", "application/pdf", "--from", "2021", "--to", "2022"), ["=mime:application/pdf"]),
    ],
)
def test_a_batch_selects_what_cdx_toolkit_finds(
    big: RunningServer, big_root: Path, tmp_path: Path, flags: tuple[str, ...], filters: list[str]
) -> None:
    """Issue 5's oracle: the same index, asked by `webmill cc batch` and by cdx_toolkit."""
    period = {"from_ts": "2021", "to": "2022"} if "--from" in flags else {}
    fetcher = cdx_toolkit.CDXFetcher(source=f"{big.address}/{BIG}-index")
    expected = {
        (capture["urlkey"], capture["timestamp"], capture["offset"])
        for capture in fetcher.iter("*.a.com", filter=filters, **period)
    }
    queue = tmp_path / "queue.sqlite"
    index = big_root / "cc-index" / "collections" / BIG / "indexes" / "cluster.idx"
    asked = ("--cluster-idx", index, "--domain", "a.com", *flags, "--queue", f"sqlite:{queue}", "--no-metrics")
    run("cc", "batch", *asked)
    assert expected
    assert batched(queue) == expected


def batched(file: Path) -> set[tuple[str, str, str]]:
    queue, found = SqliteQueue(file, max_attempts=1, lease=600.0), set()
    try:
        with queue.consume() as consumer:
            while delivery := consumer.receive(timeout=0.1):
                for item in json.loads(delivery.body):
                    found.add((item["surt_url"], item["timestamp"], item["metadata"]["offset"]))
                delivery.ack()
    finally:
        queue.close()
    return found
