"""Languages have names that people read."""

from __future__ import annotations

import pytest

from webmill.formats.cld2 import ISO_639_3
from webmill.formats.language_names import LANGUAGE_NAMES, language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("eng", "English"), ("en", "English"), ("en-GB", "English"), ("EN", "English"), ("kor", "Korean"),
        ("he", "Hebrew"), ("zh-Hant", "Chinese"), ("ger", "German"), ("nb", "Norwegian Bokmål"),
        ("crs", "Seychellois Creole"), ("qqq", "qqq"), ("", ""), ("<b>", "<b>"),
    ],
)  # fmt: skip
def test_a_code_has_a_name(code: str, name: str) -> None:
    assert language_name(code) == name


def test_every_language_that_is_detected_has_a_name() -> None:
    assert not set(ISO_639_3.values()) - LANGUAGE_NAMES.keys()
