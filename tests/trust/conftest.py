"""No folder is trusted here unless a test says so, and each test has a configuration of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trust.hostile import Attacker, Scene, make_scene, start_attacker


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration, empty."""
    monkeypatch.delenv("WEBMILL_TRUST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    attacker = start_attacker()
    yield attacker
    attacker.socket.close()


@pytest.fixture
def scene(tmp_path: Path, sample_root: Path, attacker: Attacker) -> Scene:
    return make_scene(tmp_path, sample_root, attacker)
