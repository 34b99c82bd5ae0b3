"""What a script module imports before it runs: the addresses of `import … from "./a.js"`, `export … from "./a.js"`.

    list(read_imports('import {a} from "./b.js"; import "/c.js"'))   # ["./b.js", "/c.js"]

Static imports (https://tc39.es/ecma262/#sec-imports), and of those that are decided while a script runs what is written
in it: `import("./About.js")`, and the names of built files (`read_assets`). A bare name,
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


# `import("./About.js")`, which a bundler writes for each part of an application that is loaded when it is needed.
_DYNAMIC = re.compile(r"""(?<![\w$.])import\s{0,20}\(\s{0,20}(["'`])((?:\.{0,2}/|https?:)[^"'`\\\s$]{1,300})\1""")
# Names of built files: in a folder of those, or with a hash before the ending.
_ASSET = re.compile(
    r"""["'`]((?:https?:/|\.{1,2})?/?(?:[\w.@~-]{1,100}/){1,8}[\w.@~-]{1,150}
    \.(js|mjs|css|json|wasm|svg|png|jpe?g|webp|avif|gif|ico|woff2?|ttf|mp4|webm|mp3))["'`]""",
    re.VERBOSE | re.IGNORECASE,
)
_BUILT = re.compile(
    r"(?:^|/)(?:assets|static|_next|_nuxt|_app|build|dist|chunks|immutable)/|[-.][\w-]{8,32}\.\w+$", re.ASCII
)
MOST_ASSETS = 500  # of one script


def read_assets(script: str, *, url: str) -> Iterator[str]:
    """Yield the addresses of files that a module names: what it imports when it is needed, and built files, such as
    those that Vite lists before an import. A file that is named by its folder lies beside the module in that folder."""
    for found in _DYNAMIC.finditer(script):
        yield found[2]
    named = 0
    for found in _ASSET.finditer(script):
        address = found[1]
        if named < MOST_ASSETS and _BUILT.search(address) and (whole := _beside(address, url)):
            named += 1
            yield whole


def _beside(address: str, url: str) -> str:
    """Return an address that says where it is; "" for one that may lie anywhere."""
    if _ADDRESS.match(address):
        return address
    folder = address.partition("/")[0]
    at = url.partition("?")[0].find(f"/{folder}/", 8)  # behind `https://`
    return url[: at + 1] + address if at >= 0 else ""
