"""What leaves the machine when hostile pages of an archive are looked at, counted by the kernel (V09)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serve.browser import needs_browser

ROOT = Path(__file__).parents[2]


def can_unshare() -> bool:
    if sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")):
        return False
    script = "unshare --net ip link add out type veth peer name nowhere"
    return subprocess.run(script.split(), check=False, capture_output=True).returncode == 0


pytestmark = [
    *needs_browser,
    pytest.mark.soak,
    pytest.mark.skipif(not can_unshare(), reason="needs root, unshare and ip: a network namespace"),
]


# Chromium opens a line before it asks whether it may: no header stops that (docs/reference/replay.md).
IN_ADVANCE = {"https://evil.example/", "https://evil.example/away"}
LINE = "protocol 6, 203.0.113.9:80"


def test_no_packet_leaves_the_machine_for_an_archived_page() -> None:
    """Every name of the world leads out: one that is really asked for is counted, or nothing would be proven."""
    command = ["unshare", "--net", sys.executable, "-m", "tests.serve.replay_namespace"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)
    assert LINE in sent["asked"]
    assert {url: packets for url, packets in sent["plain"].items() if packets} == {}
    assert {url for url, packets in sent["scripted"].items() if packets} <= IN_ADVANCE
    assert {packet for packets in sent["scripted"].values() for packet in packets} <= {LINE}
