"""How crawls begin and end: one at a time, stopped by signals; processes die, disks and descriptors run out."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.faults.matrix import record
from tests.pipeline.crawling import (
    Growing,
    Linked,
    Setup,
    archives,
    captures,
    check_records,
    children,
    counts,
    crawl_here,
    seen_by,
    start,
    visits,
)
from tests.unit.cli.command import webmill
from webmill.crawl.options import CrawlLimits
from webmill.errors import Conflict
from webmill.testing import HttpReply, TestWeb
from webmill.testing.exchange import ScriptedReply, Step, Wait

PATIENCE = 90.0
GRACE = 10.0  # of the shards, for requests that are under way


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def growing(*names: str) -> dict[str, Growing]:
    return {name: Growing() for name in names}


def command(root: Path, web: TestWeb, names: Iterable[str], *flags: str) -> list[str]:
    places = {name: web.resolve[name] for name in names}
    resolve = [part for name, (ip, port) in places.items() for part in ("--resolve", f"{name}={ip}:{port}")]
    seeds = [f"http://{name}/" for name in places]
    return [
        sys.executable, "-m", "webmill", "crawl", str(root), *seeds, "--scope", "any", "--allow-private",
        "--contact", "nobody@example.org", "--address-delay", "0s", *resolve, *flags,
    ]  # fmt: skip


@pytest.mark.parametrize("limit", ["seconds", "pages"])
def test_a_request_under_way_is_given_up_soon_when_the_time_is_over(root: Path, limit: str) -> None:
    """It takes longer than is left after `--max-time`, but not longer than a crawl that ends otherwise waits for it."""
    page = b"<title>Slow</title>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page)
    begun = []

    def answer() -> Iterator[Step]:
        begun.append(True)
        yield from (head, Wait(7), page)

    slow = ScriptedReply(steps=answer())
    sites = {"www.slow.test": Linked(1, slow=slow)}
    with TestWeb(hosts=0, sites=sites, pace=1.0) as web:
        limits = CrawlLimits(seconds=2.0) if limit == "seconds" else CrawlLimits(pages=2)
        setup = Setup(seeds=("http://www.slow.test/slow",), resolve=dict(web.resolve), limits=limits)
        ended = crawl_here(root, setup)
        assert begun
    assert (ended.end, ended.total.pages, ended.total.waiting) == (
        ("seconds", 0, 1) if limit == "seconds" else ("finished", 1, 0)
    )


def test_a_second_crawl_in_the_same_folder_is_refused(root: Path) -> None:
    with TestWeb(hosts=0, sites=growing("www.one.test")) as web:
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), delay=0.2)
        first = start(root, setup)
        try:
            wait_for(lambda: len(web.log))
            with pytest.raises(Conflict, match="another process is crawling"):
                crawl_here(root, setup)
        finally:
            first.terminate()
            first.wait(PATIENCE)


@pytest.mark.parametrize(
    ("number", "processes"), [(signal.SIGINT, 2), (signal.SIGTERM, 1)], ids=["SIGINT to all", "SIGTERM to the parent"]
)
def test_a_signal_ends_it_in_good_order_and_it_goes_on_later(root: Path, number: int, processes: int) -> None:
    sites = growing("www.d0.test", "www.d1.test", "www.d2.test")
    with TestWeb(hosts=0, sites=sites) as web:
        first = subprocess.Popen(
            command(root, web, sites, "--delay", "200ms", "--processes", str(processes), "--json", "--no-languages"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        wait_for(lambda: len(web.log) > 6)
        reported = time.monotonic()
        os.killpg(first.pid, number) if number == signal.SIGINT else first.send_signal(number)
        out, err = first.communicate(timeout=PATIENCE)
        is_cut = time.monotonic() - reported > GRACE  # what was under way for so long is given up, and asked for again
        assert first.returncode == 130, err
        assert json.loads(out)["end"] == "stopped"
        assert not list(root.rglob("*.open"))
        check_records(root)
        for site in sites.values():
            site.grows = False
        again = subprocess.run(
            [sys.executable, "-m", "webmill", "crawl", str(root), "--json"], capture_output=True, check=True
        )
        assert json.loads(again.stdout)["end"] == "finished"
        assert web.log.settle()
        asked = counts(seen_by(web.log))
    assert is_cut or set(asked.values()) == {1}
    check_records(root)
    archived = Counter(url for _, url, _ in captures(root))
    assert archived == dict.fromkeys(asked, 1)


def test_it_tells_what_waits_and_what_was_left_out(root: Path) -> None:
    site = Linked(0, later=HttpReply(status=503, headers=(("Retry-After", "86400"),)))
    site.replies["/"] = HttpReply(body=b"<a href=/later><a href=/1.pdf><a href=/2.PDF?x><a href=/3.zip>")
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        flags = ("--delay", "0s", "--processes", "1", "--max-pages", "9", "--no-languages")
        done = subprocess.run(command(root, web, ["www.one.test"], *flags), capture_output=True, check=True, text=True)
    assert re.search("every remaining host must wait longer than --max-wait: .* after 0:00:", done.stderr)
    assert "\n1 URL waits for one.test until " in done.stderr
    assert "skipped by file type: 2 links to .pdf, 1 to .zip; --all-types follows them" in done.stderr
    assert f"to continue: webmill crawl {root}" in done.stderr


@pytest.mark.crash
def test_a_process_that_dies_is_started_again(root: Path) -> None:
    sites = growing(*(f"www.d{number}.test" for number in range(4)))
    errors = root.parent / "err"
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        process = start(root, Setup(seeds=seeds, resolve=dict(web.resolve), delay=0.2, window=0.9, processes=2))
        wait_for(lambda: len(web.log) > 6)
        os.kill(children(process.pid)[0], signal.SIGKILL)
        wait_for(lambda: "a process died" in errors.read_text())
        for site in sites.values():
            site.grows = False
        assert process.wait(PATIENCE) == 0, errors.read_text()
        asked = counts(seen_by(web.log))
    wanted = {url for url in asked if not url.endswith("/robots.txt")}
    lost = wanted - (visits(root).keys() & {url for _, url, _ in captures(root)})
    record("crawl", "kill -9 at random", injected=1, acknowledged=len(wanted), lost=len(lost))
    assert json.loads((root.parent / "out").read_text())["end"] == "finished"
    assert {visit.status for visit in visits(root).values()} == {200}
    assert {*visits(root)} == wanted
    assert not lost
    assert not list(root.rglob("*.open"))
    check_records(root)


def test_every_reader_and_every_next_step_takes_what_it_wrote(root: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own modules
        from fastwarc.warc import ArchiveIterator

    with TestWeb(hosts=3, pages_per_host=4) as web:
        crawl_here(root, Setup(seeds=(web.home,), resolve=dict(web.resolve), file_bytes=20_000))
        first = web.body(web.home)
    assert len(archives(root)) > 4
    assert captures(root)
    for path in archives(root):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                assert "WARC-Block-Digest" not in record.headers or record.verify_block_digest(), record.headers
    checked = webmill("warc", "check", *archives(root))
    assert checked.code == 0, checked.err
    assert webmill("index", root).code == 0
    assert first


def test_without_file_descriptors_nothing_is_lost(root: Path) -> None:
    sites = {f"www.d{number}.test": Linked(2) for number in range(100)}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
        try:
            process = start(root, Setup(seeds=seeds, resolve=dict(web.resolve), processes=1))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert process.wait(PATIENCE) == 0, (root.parent / "err").read_text()
    assert len([visit for visit in visits(root).values() if visit.status == 200]) == 100 * 3
    check_records(root)


def test_a_full_disk_pauses_it_and_says_so_and_nothing_is_lost(tmp_path: Path) -> None:
    """The ballast is taken away when it has said so."""
    if os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        root, ballast = disk / "collection", disk / "ballast"
        big = {str(number): HttpReply(body=os.urandom(20_000).hex().encode()) for number in range(20)}
        with TestWeb(hosts=0, sites={"www.one.test": Linked(20, **big)}) as web:
            ballast.write_bytes(bytes(2 << 20))
            setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve))
            troubles: list[str] = []
            report = crawl_watched(root, setup, troubles, ballast)
            assert web.log.settle()
            assert set(counts(seen_by(web.log)).values()) == {1}
        assert report == "finished"
        assert any("disk is full" in trouble or "No space" in trouble for trouble in troubles), troubles
        assert len([visit for visit in visits(root).values() if visit.status == 200]) == 21
        check_records(root)
        urls = [url for _, url, _ in captures(root)]
        assert len(urls) == len(set(urls))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def crawl_watched(root: Path, setup: Setup, troubles: list[str], ballast: Path) -> str:
    from tests.pipeline.crawling import crawl_until

    def look(seen: object) -> bool:
        trouble = msgspec.structs.asdict(seen)["write_error"]  # type: ignore[type-var]
        if trouble:
            troubles.append(trouble)
            ballast.unlink(missing_ok=True)
        return False

    return crawl_until(root, setup, look).end
