"""Headers are a mapping that keeps every pair."""

from __future__ import annotations

import pytest

from webmill.model import Headers

HEADERS = Headers([("Content-Type", "text/html"), ("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("X-Empty", "")])


def test_names_are_found_whatever_their_case() -> None:
    assert HEADERS["content-type"] == HEADERS.get("CONTENT-TYPE") == "text/html"
    assert "CONTENT-type" in HEADERS
    assert HEADERS["X-Empty"] == ""
    assert HEADERS.get("Location", "nowhere") == "nowhere"


def test_a_name_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="Location"):
        HEADERS["Location"]


def test_every_value_is_kept() -> None:
    assert HEADERS["Set-Cookie"] == "a=1"
    assert HEADERS.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert HEADERS.items() == list(HEADERS.pairs)
    assert len(HEADERS.items()) == 4


def test_it_is_a_mapping_of_names() -> None:
    assert list(HEADERS) == list(HEADERS.keys()) == ["content-type", "set-cookie", "x-empty"]
    assert len(HEADERS) == 3
    assert dict(HEADERS) == {"content-type": "text/html", "set-cookie": "a=1", "x-empty": ""}
    assert dict(HEADERS) == {**HEADERS}
    assert list(HEADERS.values()) == ["text/html", "a=1", ""]
    assert not Headers()
