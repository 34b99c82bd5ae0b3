"""Languages by their names, for people; and their codes for the `lang` attribute, by which browsers choose fonts and
voices.
"""

from __future__ import annotations

import re

from webmill.formats.language_names import language_name
from webmill.search.languages import codes_of
from webmill.serve.api.links import readable_host

_CODE = re.compile("[a-z]{2,3}")


def lang_of(code: str) -> str:
    """Return the HTML language of a code (`kor` is `ko`), or nothing for an invalid one."""
    code = code.lower()
    return codes_of(code)[0] if _CODE.fullmatch(code) else ""


def facet_label(value: str, name: str) -> str:
    """Return a value of the facet `name` for people: languages by name, hosts in their own script."""
    if name == "language":
        return language_name(value)
    return readable_host(value) if name in ("domain", "site") else value
