"""The demo: what a newcomer sees first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

DEMO = [sys.executable, "-m", "webmill", "demo"]


def test_the_demo_ends_by_itself_and_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([*DEMO, "--no-serve"], env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "archived 500 pages of 20 hosts" in done.stdout
    assert "1,001 records read back, 0 damaged" in done.stdout
    assert "indexed  500 captures" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_kept_demo_is_a_collection_that_others_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    subprocess.run([*DEMO, "--no-serve", "--keep", str(folder)], capture_output=True, timeout=100, check=True)
    (warc,) = folder.glob("crawl-data/DEMO/segments/*/warc/*.warc.gz")
    with warc.open("rb") as source:
        types = [record.rec_type for record in ArchiveIterator(source)]
    assert (types.count("warcinfo"), types.count("request"), types.count("response")) == (1, 500, 500)
    verify = [sys.executable, "-m", "webmill", "cdxj", "verify", str(folder / "cc-index/collections/DEMO/indexes")]
    subprocess.run(verify, capture_output=True, timeout=100, check=True)


def test_a_folder_that_holds_something_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    done = subprocess.run([*DEMO, "--keep", str(tmp_path)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_the_small_web_stays_up_until_ctrl_c() -> None:
    process = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "The small web is up" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.wait(120) == 0
