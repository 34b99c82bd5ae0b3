"""Archived pages in Chromium, in a network namespace of its own: what leaves the machine.

    unshare --net python -m tests.serve.replay_namespace

Names in `.example` lead to an address behind the only way out, which counts what goes there and answers nothing.
Prints where the packets of archived pages wanted to go, with and without their scripts, and those of a page that was
really asked for.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

from tests.serve.browser import ARGUMENTS, DEADLINE, Origins, serving
from tests.serve.test_replay_browser import LEAVING, WHEN, records
from tests.serve.warc_fixtures import collection

OUT, ELSEWHERE = "out", "203.0.113.9"
ETH_P_ALL, ETH_P_IP = 3, 0x0800
EVIL = "https://evil.example/"
PAGES = ("https://good.example/", EVIL, *(f"{EVIL}{name}" for name in LEAVING))
RULES = f"--host-resolver-rules=MAP *.example {ELSEWHERE},MAP * ~NOTFOUND,EXCLUDE 127.0.0.1"
NETWORK = (
    "ip link set lo up",
    f"ip link add {OUT} type veth peer name nowhere",
    f"ip link set {OUT} arp off",  # what is sent is sent, though nobody is there
    *(f"ip link set {end} addrgenmode none up" for end in (OUT, "nowhere")),  # the kernel itself says nothing
    f"ip address add 203.0.113.1/24 dev {OUT}",
    f"ip route add default dev {OUT}",
)


def main() -> None:
    for command in NETWORK:
        subprocess.run(command.split(), check=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(collection(Path(folder), records())) as origins,
        sync_playwright() as playwright,
    ):
        wire = Wire()
        plain, scripted = (
            {url: look_at(playwright, origins, wire, url, scripts=scripts) for url in PAGES}
            for scripts in (False, True)
        )
        print(json.dumps({"plain": plain, "scripted": scripted, "asked": ask_elsewhere(playwright, wire)}))


@contextmanager
def open_browser(playwright: Playwright) -> Iterator[Browser]:
    """Open a browser for one page. Closed, it sends nothing more: a busy machine may be slow to close one page's
    connections, and what they send again would count for the next page.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    browser = playwright.chromium.launch(
        executable_path=program, args=[*ARGUMENTS, RULES], chromium_sandbox=False, timeout=DEADLINE
    )
    try:
        yield browser
    finally:
        browser.close()


class Wire:
    """The other end of the way out."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self._socket.bind(("nowhere", 0))
        self._socket.setblocking(False)

    def packets(self) -> list[str]:
        """Where those since the last time wanted to go."""
        found = []
        while True:
            try:
                data, address = self._socket.recvfrom(2048)
            except BlockingIOError:
                return found
            if address[1] == ETH_P_IP:
                port = int.from_bytes(data[(data[0] & 15) * 4 + 2 :][:2])
                found.append(f"protocol {data[9]}, {socket.inet_ntoa(data[16:20])}:{port}")
            else:
                found.append(f"{address[1]:04x}")


def look_at(playwright: Playwright, origins: Origins, wire: Wire, url: str, *, scripts: bool) -> list[str]:
    with open_browser(playwright) as browser:
        page = browser.new_context(java_script_enabled=scripts).new_page()
        page.goto(f"{origins.address}/web/{WHEN}/{url}", timeout=DEADLINE)
        frame = page.locator("#page").element_handle().content_frame()
        assert frame
        if scripts and url == EVIL:
            frame.wait_for_function("window.done", timeout=DEADLINE)
        page.wait_for_timeout(1000)  # what gives no answer has gone wherever it goes
    return wire.packets()


def ask_elsewhere(playwright: Playwright, wire: Wire) -> list[str]:
    sent, deadline = list[str](), time.monotonic() + DEADLINE / 1000
    with open_browser(playwright) as browser:
        page = browser.new_page()
        while not sent and time.monotonic() < deadline:
            with suppress(Error):  # it is never answered
                page.goto("http://live.example/", timeout=500)
            sent = wire.packets()
    return sent


if __name__ == "__main__":
    main()
