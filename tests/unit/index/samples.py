"""CDXJ lines for the tests of this room."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from hypothesis import strategies as st

from webmill.index.lines import Batch, in_batches

BYTE_ORDER = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}


def capture(key: str, stamp: str = "20240101120000", **fields: str) -> bytes:
    data = {"url": f"http://{key}", "mime": "text/html"} | fields
    return f"{key} {stamp} {json.dumps(data)}\n".encode()


def flat(batches: Iterable[Batch]) -> list[bytes]:
    return list(chain.from_iterable(batches))


def cut_into(lines: list[bytes], size: int) -> Iterable[Batch]:
    return in_batches(lines, size=size)


def write(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def run_sort(*arguments: str | Path) -> bytes:
    return subprocess.run(["sort", *map(str, arguments)], env=BYTE_ORDER, stdout=subprocess.PIPE, check=True).stdout


# No byte below the newline (webmill.index.lines says why); few letters, so that lines are often equal or prefixes.
line_bodies = st.lists(st.sampled_from(b" !,)abz\x7f\xc3\xff"), max_size=6).map(bytes)
any_lines = st.lists(line_bodies.map(lambda body: body + b"\n"), max_size=40)

urlkeys = st.sampled_from(["a", "a,b)/", "a,b)/c", "b", "com,x)/", "é)/"])
captures = st.builds(
    capture,
    urlkeys,
    st.integers(20200101000000, 20200101000003).map(str),
    mime=st.sampled_from(["text/html", "warc/revisit"]),
)
