"""Requests to where none may go, counted by the servers there (N01, N02, N04); a network that fails (N17, N22).

Each test runs in a network namespace of its own, where private addresses and a lying name server exist on its `lo`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.crawl.fetch.namespace import FAR_V6, PRIVATE, PUBLIC, PUBLIC_V6
from tests.unit.crawl.fetch.test_resources import ROOT


def _can_unshare() -> bool:
    if sys.platform != "linux" or os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run(["unshare", "--net", "--mount", "true"], check=False, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not _can_unshare(), reason="needs root, unshare and ip: a network namespace")


def test_no_private_address_is_ever_connected() -> None:
    report = _inside("ask_all")
    outcomes, connected = report["outcomes"], report["connected"]
    for number, ip in enumerate(PRIVATE):
        assert outcomes[f"private{number}.test"][0] == "blocked_address"
        assert outcomes[ip] == ["blocked_address", ip]
        assert connected[ip] == 0
    assert outcomes["mapped.test"][0] == "blocked_address"
    assert outcomes["public.test"] == ["whole", PUBLIC]
    assert outcomes["sixth.test"] == ["whole", PUBLIC_V6]
    assert outcomes["mixed.test"][1] in (PUBLIC, PRIVATE[1])  # in the system's order; only one of them was connected
    assert connected[PUBLIC] == 1 + (outcomes["mixed.test"] == ["whole", PUBLIC])
    assert connected[PUBLIC_V6] == 1


def test_a_name_server_can_fail_in_every_way() -> None:
    report = _inside("ask_all")
    outcomes, asked = report["outcomes"], report["asked"]
    assert outcomes["nx.test"][0] == outcomes["empty.test"][0] == "dns_notfound"
    for name in ("failing.test", "silent.test", "circle.test"):
        assert outcomes[name][0] in ("dns_failed", "dns_notfound", "dns_timeout"), name
        assert asked[name] >= 1
    assert outcomes["failing.test"][0] == "dns_failed"
    assert outcomes["silent.test, impatient"][0] == "dns_timeout"
    assert outcomes["many.test"][0] == "located"  # one of thousands, which came over TCP


def test_a_name_that_changes_between_check_and_use_gains_nothing() -> None:
    report = _inside("rebind")
    first, second, third, *rest = report["outcomes"]
    assert first == ["blocked_address", PRIVATE[1]]
    assert second == ["whole", PUBLIC]
    assert third == ["blocked_address", PRIVATE[1]]
    assert {tuple(outcome) for outcome in rest} == {("whole", PUBLIC), ("blocked_address", PRIVATE[1])}
    assert all(report["connected"][ip] == 0 for ip in PRIVATE)
    assert report["asked"]["rebind.test"] == 12


def test_ipv6_that_leads_nowhere_keeps_no_page_from_coming_over_ipv4() -> None:
    report = _inside("families")
    outcomes, connected = report["outcomes"], report["connected"]
    assert outcomes["blackholed.test"] == [["whole", PUBLIC]] * 2
    assert outcomes["dark.test"] == [["connect_timeout", FAR_V6[0]]]
    assert outcomes["both.test"] == [["whole", PUBLIC_V6]]
    assert outcomes["from IPv4"] == ["whole", PUBLIC]
    assert connected[PUBLIC] == 2  # the second page came over the connection of the first
    assert connected[PUBLIC_V6] == 1
    assert all(connected[ip] == 0 for ip in PRIVATE)


@pytest.mark.slow
def test_a_network_that_goes_away_costs_a_deadline() -> None:
    report = _inside("partition")
    assert report["nowhere"][0] == "connect_timeout"
    assert report["cut"] == ["time", PUBLIC]
    assert report["during"][0] in ("connect_timeout", "connect_failed", "timeout")
    assert report["after"] == ["whole", PUBLIC]


@pytest.mark.slow
def test_a_narrow_link_that_loses_packets_brings_every_byte() -> None:
    report = _inside("narrow")
    if "skipped" in report:
        pytest.skip(report["skipped"])
    assert report["whole"] == [True] * 4
    assert report["dropped"] > 0


def _inside(task: str) -> dict[str, Any]:
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.unit.crawl.fetch.namespace", task]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]
