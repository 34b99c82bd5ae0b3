"""`webmill forget` killed at any moment, and run again: nothing of it is found, and others are untouched.

WEBMILL_TEST_KILLS says how many kills (50 is a good number).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import webmill
from tests.faults.matrix import seed
from tests.pipeline.taken_down import captures, found, make_collection, run
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.manifest import read_version_index
from webmill.publish.shards import read_items

KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "2"))
EACH = 5  # kills of one collection, before it is looked at
FORGET = ("http://open.test/hush-hush", "gone.test", "--reason", "asked", "--processes", "1")


def program(root: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "webmill", "-q", "forget", str(root), *FORGET, *flags]


def kill_within(command: list[str], seconds: float) -> bool:
    """Kill a command with all its processes after some time; return whether that was before its end."""
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def state(root: Path) -> object:
    """Return what there is of the others: captures, documents, and items of the live version."""
    storage = LocalStorage(root)
    items = read_items(storage, read_version_index(storage, history.live_version(storage)))
    return (
        sorted(captures(root)),
        sorted(msgspec.json.encode(one) for one in webmill.documents(root)),
        [msgspec.json.encode(item) for item in items],
        sorted((one.id, one.text) for one in webmill.corpus(root)),
    )


@pytest.mark.soak  # a command that is killed rebuilds the collection each time: minutes
@pytest.mark.timeout(300 + 120 * KILLS)
def test_killed_again_and_again_nothing_is_found_and_others_are_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    made, calm = tmp_path / "made" / "news", tmp_path / "calm" / "news"
    make_collection(made)
    shutil.copytree(made, calm)
    began = time.monotonic()
    subprocess.run(program(calm, "--rewrite"), check=True, capture_output=True)
    longest, expected = time.monotonic() - began, state(calm)
    dice, killed = random.Random(seed(27)), 0
    for round_ in range(-(-KILLS // EACH)):
        flags = ("--rewrite",) if round_ % 2 else ()
        root = tmp_path / f"round{round_}" / "news"
        shutil.copytree(made, root)
        wanted = killed + min(EACH, KILLS - round_ * EACH)
        for _ in range(4 * EACH):  # what is done already takes less time: some end before they are killed
            if killed < wanted:
                killed += kill_within(program(root, *flags), dice.uniform(0.1, 0.8) * longest)
        run("forget", root, *FORGET, *flags)
        assert found(root, tmp_path / f"round{round_}" / "out") == []
        assert state(root) == expected
        run("publish", "verify", root, "--read-data")
        shutil.rmtree(root.parent)
    assert killed > 0
    print(f"{killed} of {KILLS} were killed before their end")
