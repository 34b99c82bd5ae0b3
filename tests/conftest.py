"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.services.fixtures"]

settings.register_profile("soak", max_examples=1000)

# Under nohup and in background jobs Ctrl-C and the end of a terminal are ignored, and so they would be by the commands
# that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

gc.disable()  # until all tests are collected, see below

# The user's own configuration is not touched, and what tests put together by hand is trusted: tests of trust say
# otherwise (tests/trust). Commands inherit it.
CONFIGURATION = tempfile.TemporaryDirectory(prefix="webmill-test-configuration-")
os.environ["XDG_CONFIG_HOME"] = CONFIGURATION.name
os.environ["WEBMILL_TRUST"] = os.pathsep.join([tempfile.gettempdir(), "/dev/shm", "/var/tmp"])

LOGGERS = logging.root, logging.getLogger("webmill")
LEVELS = [logger.level for logger in LOGGERS]

ROOT = Path(__file__).parent.parent
SHARED_DATA = Path(os.environ.get("WEBMILL_TEST_DATA", ROOT.parent / "shared" / "data"))


def pytest_collection_finish() -> None:
    """Thousands of tests are a million objects that live to the end: no collection during a test looks at them."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """At the end they go as ever: libraries complain of what is left."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def loudness() -> None:
    """A command that ran in this process, for a test or a fixture of many, has set how loud the loggers are; what
    follows has not asked for that.
    """
    for logger, level in zip(LOGGERS, LEVELS, strict=True):
        logger.setLevel(level)
    logging.disable(logging.NOTSET)


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A kill loses nothing that was written, so a disk would only make tests of kills slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that is on another disk than `tmp_path`."""
    ours = tmp_path.stat().st_dev
    others = [place for place in ("/dev/shm", "/var/tmp") if Path(place).is_dir() and Path(place).stat().st_dev != ours]
    if not others:
        pytest.skip("there is one disk here")
    with tempfile.TemporaryDirectory(prefix="webmill-test-", dir=others[0]) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real samples, where they are at hand. What the tests need everywhere they make themselves."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no samples at {SHARED_DATA}; set WEBMILL_TEST_DATA to use some")
    return SHARED_DATA


@pytest.fixture(scope="session")
def judges() -> Path:
    """The programs of pywb and cdxj-indexer, which judge our formats from an environment of their own."""
    programs = ROOT / ".venv-judges" / "bin"
    if not (programs / "cdx-indexer").exists():
        pytest.fail("pywb and cdxj-indexer are not installed: run `make .venv-judges/.ready` (make test does)")
    return programs


@pytest.fixture(scope="session")
def sample_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small archived collection, indexed, published twice, searchable. Not to be changed: copy it first."""
    from tests.serve.sample_collection import build

    return build(tmp_path_factory.mktemp("town") / "town")
