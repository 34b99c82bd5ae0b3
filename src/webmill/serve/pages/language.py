"""Language codes for the `lang` attribute, so that browsers choose the right fonts and voices."""

from __future__ import annotations

import re

from webmill.search.languages import codes_of

_CODE = re.compile("[a-z]{2,3}")


def lang_of(code: str) -> str:
    """Return the HTML language of a code (`kor` is `ko`), or nothing for an invalid one."""
    code = code.lower()
    return codes_of(code)[0] if _CODE.fullmatch(code) else ""
