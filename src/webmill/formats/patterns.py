"""Compile untrusted regular expressions by RE2, which never backtracks, and has no look-around and no back-references.

Errors are raised, not logged.
"""

from __future__ import annotations

import re2

from webmill.errors import BadInput


def compile_pattern(pattern: str) -> re2._Regexp:
    """Compile a pattern. Raise BadInput (bad_pattern) with the message of RE2."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        message = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise BadInput(message, reason="bad_pattern") from error
