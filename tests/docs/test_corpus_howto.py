"""The page "From WARC to load_dataset in three commands", typed as it is."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, SHARED_DATA
from tests.pipeline.corpora import LOAD, run_python
from tests.pipeline.crawling import Setup, crawl_here
from webmill.testing import TestWeb

PAGE = ROOT / "docs" / "how-to" / "make-a-corpus.md"
SAMPLE = SHARED_DATA / "triple" / "CC-MAIN-20240712094214-20240712124214-00000.warc.gz"


def commands() -> list[str]:
    block = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block
    return block[1].splitlines()


def type_in(folder: Path) -> dict[str, object]:
    """Type the commands of the page in a folder that has news/; return what load_dataset finds."""
    assert len(commands()) == 3
    for command in commands():
        program, *arguments = shlex.split(command)
        assert program == "webmill"
        done = subprocess.run(
            [sys.executable, "-m", "webmill", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "WEBMILL_EXTRACT_EXTRACTOR": "resiliparse", "WEBMILL_EXECUTOR_JOBS": "2"},
        )
        assert done.returncode in (0, 3), done.stderr
    found: dict[str, object] = json.loads(run_python(LOAD, str(folder / "news-corpus"), str(folder / "cache")))
    return found


@pytest.mark.soak
@pytest.mark.skipif(not SAMPLE.exists(), reason="no sample of Common Crawl")
def test_the_sample_of_common_crawl_becomes_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / SAMPLE.name).symlink_to(SAMPLE)
    rows = type_in(tmp_path)["rows"]
    assert isinstance(rows, int)
    assert 1000 < rows < 1143


@pytest.mark.slow
def test_a_crawl_of_the_test_web_becomes_a_data_set(tmp_path: Path) -> None:
    with TestWeb() as web:
        setup = Setup(seeds=(web.home,), resolve=dict(web.resolve))
        crawl_here(tmp_path / "news", setup)
    rows = type_in(tmp_path)["rows"]
    assert isinstance(rows, int)
    assert rows > 3
