"""Rows are sorted however many there are."""

from __future__ import annotations

import resource
from pathlib import Path

from webmill.publish.rows import MOST_RUNS, SortedRows


def test_rows_come_back_sorted_however_many_runs_there_are_and_few_files_may_be_open(tmp_path: Path) -> None:
    rows = SortedRows(tmp_path, "numbers", run_bytes=1)  # a run for each
    count = 20 * MOST_RUNS + 7
    for number in range(count):
        rows.add(b"%d" % (number * 7919 % 1009), b"%d" % number)
    wanted = sorted((b"%d" % (number * 7919 % 1009), b"%d" % number) for number in range(count))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 1000 if soft == resource.RLIM_INFINITY else min(soft, 1000)  # less than there are runs
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        assert list(rows) == wanted
        assert list(rows) == wanted, "as often as you like"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list(tmp_path.iterdir())) < 2 * MOST_RUNS
