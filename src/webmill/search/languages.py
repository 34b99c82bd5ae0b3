"""Language codes that mean the same, of two letters and of three, with the names of languages and of stemmers."""

from __future__ import annotations

from webmill.formats.language_names import LANGUAGE_NAMES

_SAME = (
    ("arabic", "ar ara"),
    ("danish", "da dan"),
    ("dutch", "nl nld dut"),
    ("english", "en eng"),
    ("finnish", "fi fin"),
    ("french", "fr fra fre"),
    ("german", "de deu ger"),
    ("greek", "el ell gre"),
    ("hungarian", "hu hun"),
    ("italian", "it ita"),
    ("norwegian", "no nor nb nob nn nno"),
    ("portuguese", "pt por"),
    ("romanian", "ro ron rum"),
    ("russian", "ru rus"),
    ("spanish", "es spa"),
    ("swedish", "sv swe"),
    ("tamil", "ta tam"),
    ("turkish", "tr tur"),
    ("", "ja jpn"),
    ("", "ko kor"),
    ("", "zh zho chi"),
)
STEMMERS = {code: name for name, codes in _SAME if name for code in codes.split()}
_CODES = {code: codes.split() for _, codes in _SAME for code in codes.split()}
_BY_NAME = {name.lower(): code for code, name in LANGUAGE_NAMES.items()}


def codes_of(language: str) -> list[str]:
    """Return all codes of a language, given as one of them or by its English name; of an unknown one, its own."""
    code = _BY_NAME.get(language.strip().lower(), language.lower())
    return _CODES.get(code, [code])
