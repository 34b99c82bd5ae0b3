"""Regular expressions that people and strangers write: RE2, which never backtracks, and has no look-around and no
back-references. What it cannot read is told to the caller, not to the log."""

from __future__ import annotations

import re2

from webmill.errors import BadInput


def compile_pattern(pattern: str) -> re2._Regexp:
    """BadInput (bad_pattern) with RE2's own words."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise BadInput(said, reason="bad_pattern") from error
