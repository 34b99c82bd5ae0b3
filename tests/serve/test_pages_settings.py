"""/settings: every one, what it means, and no secret."""

from __future__ import annotations

from pathlib import Path

from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, site_of
from webmill.serve.app import application
from webmill.settings import QueueSettings, ServeSettings, Settings, file_settings

SETTINGS = Settings(
    serve=ServeSettings(token="hush-hush", origins=("https://a.example", "https://b.example")),
    queue=QueueSettings(url="amqp://user:pass-word@host/"),
)


def shown(root: Path, settings: Settings) -> str:
    with TestClient(application(site_of(root, settings)), base_url=ADDRESS) as client:
        return client.get("/settings").text


def test_every_setting_is_shown_with_its_meaning_and_where_it_is_set(tmp_path: Path) -> None:
    cells = [
        [cell.text().strip() for cell in row.css("th, td")]
        for row in LexborHTMLParser(shown(tmp_path, SETTINGS)).css("tbody tr")
    ]
    assert [(key, variable) for key, _, _, variable in cells] == [(one.key, one.variable) for one in file_settings()]
    assert all(meaning for _, _, meaning, _ in cells)
    values = {variable: value for _, value, _, variable in cells}
    assert values["WEBMILL_SERVE_PORT"] == "8080"
    assert values["WEBMILL_HTTP_CONTACT"] == "not set"
    assert values["WEBMILL_QUEUE_URL"] == "amqp://***@host/ changed"


def test_secrets_are_told_to_be_set_and_nothing_more(tmp_path: Path) -> None:
    text = shown(tmp_path, SETTINGS)
    assert "hush-hush" not in text
    assert "pass-word" not in text
    assert "(set)" in text
    assert "with the token: browsers ask for it" in text
    assert "https://a.example, https://b.example" in text


def test_a_collection_without_a_file_of_settings_is_told_so(tmp_path: Path) -> None:
    assert "The file does not exist yet" in shown(tmp_path, Settings())
    (tmp_path / "webmill.toml").touch()
    assert "The file does not exist yet" not in shown(tmp_path, Settings())
