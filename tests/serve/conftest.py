"""One archived town for all tests of the server, read-only, and ways to ask for what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.browser import chromium, new_tab, origins, trap  # noqa: F401  fixtures of those who need a browser
from webmill.serve.app import application, replay_application
from webmill.serve.open_site import open_site
from webmill.serve.pages import overview
from webmill.serve.site import Site
from webmill.settings import Settings

ADDRESS, REPLAY = "http://127.0.0.1:8080", "http://127.0.0.1:8081"


def site_of(root: Path, settings: Settings | None = None) -> Site:
    return open_site(root, settings or Settings(), address=ADDRESS, replay_address=REPLAY, secret=b"secret")


@pytest.fixture(autouse=True)
def wait_for_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make the overview say that it is counting."""
    monkeypatch.setattr(overview, "PATIENCE", 60.0)


@pytest.fixture(scope="session")
def site(sample_root: Path) -> Site:
    return site_of(sample_root)


@pytest.fixture
def client(site: Site) -> Iterator[TestClient]:
    """The application in this process, without a socket."""
    with TestClient(application(site), base_url=ADDRESS) as client:
        yield client


@pytest.fixture
def replay_client(site: Site) -> Iterator[TestClient]:
    with TestClient(replay_application(site), base_url=REPLAY) as client:
        yield client


@pytest.fixture
def client_of() -> Callable[[Path], TestClient]:
    """For a collection of the test's own."""
    return lambda root: TestClient(application(site_of(root)), base_url=ADDRESS)
