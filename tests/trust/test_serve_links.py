"""An archive that is a link is handed out only in a folder that the user trusts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.serve.asgi_client import asgi_client
from tests.serve.conftest import site_of
from webmill.serve.app import application


def test_a_link_of_somebody_else_hands_out_nothing(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "theirs", symlinks=True))
    secret = tmp_path / "secret"
    secret.write_text("mine alone")
    (root / "x.warc.gz").symlink_to(secret)
    with asgi_client(application(site_of(root))) as ask:
        assert ask("/x.warc.gz").status == 404
    monkeypatch.setenv("WEBMILL_TRUST", str(root))
    with asgi_client(application(site_of(root))) as ask:
        assert ask("/x.warc.gz").body == b"mine alone"
