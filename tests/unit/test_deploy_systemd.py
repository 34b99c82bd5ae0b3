"""The units: systemd takes them, and what they promise of exit codes, signals and walls."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.deploy_files import COLLECTION, DEPLOY, UNITS, unit_settings
from webmill.cli.context import REJECTED
from webmill.cli.main import INTERRUPTED, USAGE
from webmill.serve.processes.server import GRACE
from webmill.serve.processes.supervisor import STOP_GRACE

WALLS = {
    "CapabilityBoundingSet": "",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "NoNewPrivileges": "yes",
    "PrivateDevices": "yes",
    "PrivateTmp": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHome": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectSystem": "strict",
    "ReadWritePaths": f"/srv/webmill/{COLLECTION}",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "User": "webmill",
}
MOST_EXPOSED = 3.0  # of systemd's ten; its versions differ in what they count


def settings_of(unit: Path) -> dict[str, str]:
    return {key: value for _, key, value in unit_settings(unit)}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_only_the_collection_can_be_written_and_no_right_be_gained(unit: Path) -> None:
    assert WALLS.items() <= settings_of(unit).items()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_is_no_failure_is_not_tried_again(unit: Path) -> None:
    printed = settings_of(unit)
    assert printed["Restart"] == "on-failure"
    assert printed["RestartPreventExitStatus"] == str(USAGE)
    assert printed["SuccessExitStatus"] == f"{REJECTED} {INTERRUPTED}"
    assert int(printed["StartLimitBurst"]) > 0


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_command_alone_is_told_to_stop_and_has_time_for_it(unit: Path) -> None:
    printed = settings_of(unit)
    assert (printed["KillMode"], printed["KillSignal"], printed["OOMPolicy"]) == ("mixed", "SIGTERM", "continue")
    assert int(printed["TimeoutStopSec"].removesuffix("s")) > max(GRACE, STOP_GRACE)


def test_a_timer_starts_what_is_there() -> None:
    for timer in (DEPLOY / "systemd").glob("*.timer"):
        assert timer.with_suffix(".service") in UNITS


@pytest.fixture
def instances(tmp_path: Path) -> list[Path]:
    """As systemd would have them for a collection, with a program that is here."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd")
    found = []
    for path in sorted((DEPLOY / "systemd").glob("webmill-*@.*")):
        copy = tmp_path / path.name.replace("@", f"@{COLLECTION}")
        copy.write_text(path.read_text().replace("/usr/local/bin/webmill", "/bin/true"))
        found.append(copy)
    return found


def test_systemd_takes_them(instances: list[Path]) -> None:
    run = subprocess.run(["systemd-analyze", "verify", *instances], capture_output=True, text=True, check=False)
    ours = [line for line in run.stderr.splitlines() if "webmill" in line]  # not of units of this machine
    assert ours == []


def test_systemd_finds_them_well_walled(instances: list[Path]) -> None:
    services = [path for path in instances if path.suffix == ".service"]
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", *services]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in run.stderr:
        pytest.skip("needs systemd 250 or newer")
    levels = re.findall(r"Overall exposure level for (\S+): ([\d.]+)", run.stdout)
    assert len(levels) == len(services)
    assert [level for level in levels if float(level[1]) > MOST_EXPOSED] == []
