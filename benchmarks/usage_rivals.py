"""Scrapy and crawlee on the conformance web of usage preferences: a table for docs/reference/usage-preferences.md.

    .venv/bin/python -m benchmarks.usage_rivals --write

Each case is a site of its own at a port of its own. Both obey robots.txt and are called webmill, so that rules for that
agent concern them. What they give to their user counts as used; for each purpose it is compared with what is expected.
Cases whose fields no server sends (over 8,000 characters) are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.unit.formats.test_preferences import decisions
from tests.usage_cases import RSL_TYPE, UsageCase, cases

from webmill.formats.preferences.decision import PURPOSES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "usage-preferences.md"
BEGIN, END = "<!-- rivals: made by benchmarks/usage_rivals.py -->", "<!-- /rivals -->"
PYTHON = ROOT / ".venv-rivals" / "bin" / "python"
RIVALS = {"Scrapy": "usage_scrapy.py", "crawlee": "usage_crawlee.py"}
TOO_LONG = 8000  # characters of a field
TIMEOUT = 600


class CaseSite(BaseHTTPRequestHandler):
    """Answers as the site of one case does."""

    def __init__(self, case: UsageCase, *arguments: object) -> None:
        self.case = case
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        case = self.case
        if self.path == "/robots.txt":
            self._send(200, "text/plain", (("License: /licence.xml\n" if case.rsl else "") + case.robots).encode())
        elif self.path == "/.well-known/tdmrep.json" and case.tdmrep:
            self._send(200, "application/json", case.tdmrep.encode())
        elif self.path == "/licence.xml" and case.rsl:
            self._send(200, RSL_TYPE, case.rsl.encode())
        elif self.path == case.path:
            self._send(case.status, case.media_type, case.page.encode(), case.headers)
        else:
            self._send(404, "text/plain", b"")

    def _send(self, status: int, media_type: str, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", media_type), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True


def sendable() -> list[UsageCase]:
    return [case for case in cases() if all(len(value) < TOO_LONG for _, value in case.headers)]


def measure() -> tuple[list[UsageCase], dict[str, set[int]]]:
    """Return the cases, and of each rival the numbers of those whose page it gives to its user."""
    found = sendable()
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        urls = []
        for case in found:
            server = stack.enter_context(Server(("127.0.0.1", 0), partial(CaseSite, case)))
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            urls.append(f"http://127.0.0.1:{server.server_address[1]}{case.path}")
        given = Path(folder) / "urls.json"
        given.write_text(json.dumps(urls))
        kept = {}
        for name, program in RIVALS.items():
            out = Path(folder) / f"{name}.json"
            command = [str(PYTHON), str(ROOT / "benchmarks" / "rivals" / program), str(given), str(out)]
            subprocess.run(command, check=True, timeout=TIMEOUT, cwd=folder)
            there = {url.partition("#")[0] for url in json.loads(out.read_text())}
            kept[name] = {number for number, url in enumerate(urls) if url.partition("#")[0] in there}
        return found, kept


def table(found: list[UsageCase], kept: dict[str, set[int]]) -> str:
    """Return, for each purpose, how many cases each decides as expected, and how many pages it uses against that."""
    columns = " | ".join(f"{name}: as expected | {name}: used though denied" for name in kept)
    rows = [f"| purpose | cases | webmill: as expected | {columns} |", "|---" * (3 + 2 * len(kept)) + "|"]
    for place, purpose in enumerate(PURPOSES):
        denied = {number for number, case in enumerate(found) if case.expected[place] == "d"}
        numbers: list[int] = []
        for used in kept.values():
            alike = sum((number in denied) == (number not in used) for number in range(len(found)))
            numbers += [alike, len(denied & used)]
        ours = sum((decisions(case)[place] == "d") == (case.expected[place] == "d") for case in found)
        rows.append(f"| {purpose} | {len(found)} | {ours} | {' | '.join(map(str, numbers))} |")
    return "\n".join(rows)


def main() -> None:
    made = table(*measure())
    print(made)
    if "--write" in sys.argv:
        text = PAGE.read_text()
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{after}")


if __name__ == "__main__":
    main()
