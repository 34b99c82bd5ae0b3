"""Copies whose sites forbid to show them are not shown to others, in any of the ways to ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, REPLAY, site_of
from tests.serve.warc_fixtures import collection, response
from webmill.serve.app import application, replay_application
from webmill.settings import Settings

WHEN, SITE = "20230401120000", "https://made.example"
HTML = ("Content-Type", "text/html")
RECORDS = (
    response(f"{SITE}/header", WHEN, b"<p>secret", head=(HTML, ("X-Robots-Tag", "noarchive"))),
    response(f"{SITE}/meta", WHEN, b"<html><meta name=robots content=noarchive><p>secret", head=(HTML,)),
    response(f"{SITE}/other", WHEN, b"<html><meta name=googlebot content=noarchive><p>open", head=(HTML,)),
)
PLACES = ("/raw/{}/{}", "/raw/{}warc_/{}", "/web/{}/{}")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collection(tmp_path_factory.mktemp("closed") / "news", RECORDS)


def clients(root: Path, noarchive: str) -> Iterator[TestClient]:
    serve = msgspec.structs.replace(Settings().serve, noarchive=noarchive)  # type: ignore[arg-type]
    site = site_of(root, msgspec.structs.replace(Settings(), serve=serve))
    yield TestClient(application(site), base_url=ADDRESS, follow_redirects=False)
    yield TestClient(replay_application(site), base_url=REPLAY, follow_redirects=False)


@pytest.mark.parametrize("page", ["header", "meta"])
def test_a_closed_copy_is_not_shown_and_it_is_told_why(root: Path, page: str) -> None:
    own, replay = clients(root, "everyone")
    answers = [own.get(place.format(WHEN, f"{SITE}/{page}")) for place in PLACES]
    answers.append(replay.get(f"/web/{WHEN}/{SITE}/{page}"))
    assert [answer.status_code for answer in answers] == [404] * 4
    assert all("secret" not in answer.text for answer in answers)
    assert "noarchive" in answers[0].json()["message"]
    assert "does not allow copies" in answers[2].text


def test_others_are_shown_and_all_of_them_to_a_deposit_library(root: Path) -> None:
    own, _ = clients(root, "everyone")
    assert own.get(f"/raw/{WHEN}/{SITE}/other").status_code == 200
    own, _ = clients(root, "nobody")
    assert b"secret" in own.get(f"/raw/{WHEN}/{SITE}/header").content
    own, _ = clients(root, "others")  # a server of this machine alone
    assert own.get(f"/raw/{WHEN}/{SITE}/meta").status_code == 200
