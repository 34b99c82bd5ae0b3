"""A crawl that came to nothing says so by its exit code, and why (R-U01, R-U02)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked
from tests.unit.cli.command import webmill
from webmill.testing import HttpReply, TestWeb

QUICK = ("--contact", "me@example.org", "--delay", "0", "--address-delay", "0", "--processes", "1")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Fill the disk to the last block."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return


@pytest.mark.slow
@pytest.mark.parametrize("command", ["crawl", "run"])
def test_a_full_disk_ends_a_crawl_with_an_error_that_names_it(command: str, small_disk: Path) -> None:
    root = small_disk / "news"
    with TestWeb(hosts=1) as web:
        host = next(iter(web.resolve))
        fixed = f"--resolve={host}={':'.join(map(str, web.resolve[host]))}"
        flags = (*QUICK, "--allow-private", "--max-time", "3s", fixed)
        assert webmill("crawl", root, f"http://{host}/", "--max-pages", "1", *flags).code == 0
        (root / "seeds.txt").write_text(f"http://{host}/\n")
        (root / "webmill.toml").write_text('[crawl]\nmax_time = "3s"\nmax_pages = 100\n[run]\nstages = ["crawl"]\n')
        fill(small_disk)
        ended = webmill("crawl", root, "--max-pages", "100", *flags) if command == "crawl" else webmill("run", root)
    assert ended.code == 1
    assert "full" in ended.err or "No space left" in ended.err


@pytest.mark.slow
def test_a_crawl_without_a_page_names_each_seed_with_its_reason_and_the_flag_that_helps(tmp_path: Path) -> None:
    seeds = ("http://127.0.0.1:9/", "http://no-such-name.invalid/")
    ended = webmill("crawl", tmp_path / "news", *seeds, *QUICK, "--max-wait", "1s", "--max-time", "20s")
    assert ended.code == 3
    assert "http://127.0.0.1:9/: robots unreachable: blocked_port (--allow-private allows it" in ended.err
    assert "http://no-such-name.invalid/: " in ended.err
    again = webmill("crawl", tmp_path / "news", *QUICK, "--max-wait", "1s", "--max-time", "20s")
    assert again.code == 3, "as long as there is no page"


@pytest.mark.slow
def test_a_seed_that_is_not_there_ends_a_run_with_code_3(tmp_path: Path) -> None:
    root = tmp_path / "news"
    with TestWeb(hosts=0, sites={"www.one.test": Linked(1, gone=HttpReply(status=404))}) as web:
        host = "www.one.test"
        address = f"{host}={':'.join(map(str, web.resolve[host]))}"
        assert webmill("init", root, f"http://{host}/gone", "--contact", "me@example.org").code == 0
        settings = (root / "webmill.toml").read_text().replace('# delay = "auto"', 'delay = "0s"')
        settings = settings.replace("# allow_private = false", "allow_private = true")
        (root / "webmill.toml").write_text(settings.replace("# resolve = []", f'resolve = ["{address}"]'))
        ended = webmill("run", root)
        (root / "seeds.txt").write_text(f"http://{host}/\n")
        assert webmill("run", root).code in (0, 3), "the user's own collection is not asked about"
    assert ended.code == 3
    assert "/gone: http 404" in ended.err
    assert "no seed gave a page" in ended.err
