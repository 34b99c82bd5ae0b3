"""What a script module imports before it runs: the addresses of `import … from "./a.js"`, `export … from "./a.js"`.

    list(read_imports('import {a} from "./b.js"; import "/c.js"'))   # ["./b.js", "/c.js"]

Static imports alone (https://tc39.es/ecma262/#sec-imports): `import(…)` is decided while a script runs. A bare name,
`import "react"`, is no address without a map of names, which is not read. This is no parser of JavaScript: where its
words stand in a string they are taken for what they say, and at worst an address is asked for that nobody needs.

Time is linear: what is looked at is consumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+|//[^\r\n]*+"
# `import`, names that are imported, and then, if it is one, `from` and an address. A comment counts as one where it
# begins a line: elsewhere it may be half of a string, as in "http://example.com".
_TOKEN = re.compile(
    rf"""^[ \t]*+(?:{_COMMENT})
    | (?<![\w$.'"`-])(?P<word>import|export)(?P<names>(?:[\w\s$*{{}},]++|{_COMMENT})*+)
      (?:"(?P<one>[^"\\\r\n]*+)"|'(?P<two>[^'\\\r\n]*+)')?+""",
    re.VERBOSE | re.MULTILINE,
)
_COMMENTS = re.compile(_COMMENT)
_FROM = re.compile(r"(?<![\w$])from\s*+\Z")
_ADDRESS = re.compile(r"\.{0,2}/|https?:", re.IGNORECASE)


def read_imports(script: str) -> Iterator[str]:
    for found in _TOKEN.finditer(script):
        address = found["one"] or found["two"]
        if address and _ADDRESS.match(address) and _is_import(found["word"], found["names"]):
            yield address


def _is_import(word: str, names: str) -> bool:
    names = _COMMENTS.sub(" ", names)  # first: each of many `from` in a comment would be looked behind to its end
    return _FROM.search(names) is not None or (word == "import" and not names.strip())
