"""Settings are decoded once, strictly, and every refusal names its repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.config import Settings, load
from webmill.errors import Misconfigured


def settings(tmp_path: Path, text: str = "", **variables: str) -> Settings:
    file = tmp_path / "webmill.toml"
    file.write_text(text)
    return load(file, collection=None, environment=variables, flags={})


def test_every_setting_has_a_default(tmp_path: Path) -> None:
    assert load(None, collection=tmp_path, environment={}, flags={}) == Settings()


def test_the_file_is_overridden_by_variables_and_those_by_flags(tmp_path: Path) -> None:
    text = '[queue]\nattempts = 3\nlease = 5\n[log]\nformat = "text"\n'
    assert settings(tmp_path, text).queue.attempts == 3
    assert settings(tmp_path, text, WEBMILL_QUEUE_ATTEMPTS="7").queue.attempts == 7
    file = tmp_path / "webmill.toml"
    found = load(file, collection=None, environment={"WEBMILL_LOG_FORMAT": "text"}, flags={"log.format": "json"})
    assert (found.log.format, found.queue.lease) == ("json", 5.0)


def test_the_collection_s_own_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "webmill.toml").write_text('[http]\ncontact = "me@example.org"\n')
    assert load(None, collection=tmp_path, environment={}, flags={}).http.contact == "me@example.org"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[queue]\n\nulr = "x"\n', "webmill.toml:3: unknown setting `queue.ulr`: did you mean `url`?"),
        ("[qeue]\nurl = 1\n", "webmill.toml:1: unknown setting `qeue`: did you mean `queue`?"),
        ('[log]\n[queue]\nattempts = "many"\n', "webmill.toml:3: `queue.attempts`: Expected `int`, got `str`"),
        ('[log]\nformat = "xml"\n', "webmill.toml:2: `log.format`: Invalid enum value 'xml': write json, text"),
        ("\n[my-queue]\n", "webmill.toml:2: unknown setting `my-queue`: did you mean `queue`?"),
        (
            "[queue]\nmax-attempts = 3\n",
            "webmill.toml:2: unknown setting `queue.max-attempts`: did you mean `attempts`?",
        ),
        ('[queue]\n"a `b` - at c" = 3\n', "unknown setting `queue.a `b` - at c`"),
        ('"" = 3\n', "unknown setting ``: known are"),
        ("queue = 1\n", "`queue` is a section: write [queue] on a line of its own"),
        ("[queue\n", "not valid TOML"),
        pytest.param("[queue]\nattempts = " + "1" * 5000, "not valid TOML", id="a number that is too long"),
        pytest.param("a = " + "[" * 5000, "not valid TOML", id="lists in lists"),
    ],
)
def test_a_wrong_setting_is_refused_with_file_line_and_repair(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings(tmp_path, text)
    assert expected in str(caught.value)


def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="did you mean WEBMILL_QUEUE_URL"):
        settings(tmp_path, WEBMILL_QUEUE_ULR="x")
    with pytest.raises(Misconfigured, match="known are WEBMILL_HTTP_CONTACT"):
        settings(tmp_path, WEBMILL_NOTHING_OF_THE_KIND="x")


def test_a_wrong_variable_is_named_not_the_file_that_it_overrides(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"^WEBMILL_SERVE_PORT: `serve\.port`: Expected `int`"):
        settings(tmp_path, "[serve]\nport = 8080\n", WEBMILL_SERVE_PORT="abc")


def test_variables_for_the_tests_are_not_settings(tmp_path: Path) -> None:
    assert settings(tmp_path, WEBMILL_TEST_REDIS_URL="redis://x") == Settings()


def test_a_settings_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no settings file"):
        load(tmp_path / "none.toml", collection=None, environment={}, flags={})
