"""Language codes that mean the same, of two letters and of three, and the names of their stemmers."""

from __future__ import annotations

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


def codes_of(code: str) -> list[str]:
    """Return all codes of the language; of an unknown one, its own."""
    return _CODES.get(code.lower(), [code.lower()])
