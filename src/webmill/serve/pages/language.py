"""Languages as HTML names them, so that a browser chooses fonts and a screen reader a voice."""

from __future__ import annotations

import re

from webmill.search.languages import codes_of

_CODE = re.compile("[a-z]{2,3}")


def lang_of(code: str) -> str:
    """`kor` is `ko`; what is no code of a language is unknown (an empty `lang`)."""
    code = code.lower()
    return codes_of(code)[0] if _CODE.fullmatch(code) else ""
