"""One browser as a child: found, started with limits and without a network, killed with all that it started.

    process = await BrowserProcess.start(find_browser(""), BrowserLimits())
    await process.connection.call("Browser.getVersion", returns=BrowserVersion)
    await process.kill()

Guarantees
- It ends when this process ends, however that happens (Linux; elsewhere because its pipe does).
- After `kill` the process and its group are gone and reaped, and its folder is removed.
- It reaches no network: names lead nowhere, WebRTC has no sockets, and where the system allows it (Linux, as root or
  where users may make namespaces) there is no interface at all.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from webmill.crawl.browser.cdp import BrowserGone, CdpConnection
from webmill.errors import Misconfigured, Unavailable

# The shell is the same engine without a window: a page costs a tenth of what it costs in the whole browser.
PROGRAMS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
LAUNCHER = Path(__file__).with_name("launcher.py")
START_TIME = 60.0  # seconds, on a machine that is busy
GRACE = 3.0  # from closing the pipe to being gone
_FEATURES = (  # that ask for something, or change what a page asks for
    *("Translate", "OptimizationHints", "MediaRouter", "InterestFeedContentSuggestions", "DialMediaRouteProvider"),
    *("NetworkTimeServiceQuerying", "AutofillServerCommunication", "CertificateTransparencyComponentUpdater"),
    *("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "BackForwardCache", "Prerender2"),
)
_ALWAYS = (
    *("--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--mute-audio"),
    *("--disable-dev-shm-usage", "--disable-breakpad", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-domain-reliability"),
    *("--disable-client-side-phishing-detection", "--metrics-recording-only", "--no-pings", "--hide-scrollbars"),
    *("--password-store=basic", "--use-mock-keychain", "--log-level=3", "--disable-quic"),
    *("--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows"),
    *("--disable-renderer-backgrounding", "--disable-ipc-flooding-protection", "--disable-hang-monitor"),
    *("--disable-prompt-on-repost", "--block-new-web-contents=false", "--autoplay-policy=no-user-gesture-required"),
    # Without a network: no name leads anywhere, and WebRTC may only use a proxy, which there is not.
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"),
    f"--disable-features={','.join(_FEATURES)}",
)


class BrowserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one browser may take. `memory` bounds each of its processes, and so each page."""

    memory: int = 1 << 30  # bytes of data
    cpu: int = 1800  # seconds of each process
    pages: int = 100  # then it is replaced
    isolated: bool = True


class BrowserVersion(msgspec.Struct, frozen=True):
    product: str = ""
    user_agent: str = msgspec.field(default="", name="userAgent")


def find_browser(path: str) -> Path | None:
    """Return the browser at `path`, or the best one on PATH. Misconfigured: `path` names none."""
    if path:
        if found := shutil.which(path):
            return Path(found)
        raise Misconfigured(
            f"no browser at {path}; install one (Debian: apt-get install chromium-headless-shell) or correct "
            "--browser-path"
        )
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return Path(found) if found else None


def require_browser(path: str) -> Path:
    """Return the browser to use. Misconfigured: there is none."""
    if found := find_browser(path):
        return found
    raise Misconfigured(
        f"no browser on PATH ({', '.join(PROGRAMS)}); install one (Debian: apt-get install chromium-headless-shell), "
        "or name it with --browser-path"
    )


class BrowserProcess:
    def __init__(self, process: asyncio.subprocess.Process, connection: CdpConnection, folder: Path) -> None:
        self._process, self.connection, self._folder = process, connection, folder
        self.version = BrowserVersion()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not self.connection.closed.done()

    @classmethod
    async def start(cls, program: Path, limits: BrowserLimits) -> BrowserProcess:
        """Return a browser that answers. Unavailable: it does not start."""
        folder = Path(tempfile.mkdtemp(prefix="webmill-browser-"))
        try:
            browser = await _spawn(cls, program, limits, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            browser.version = await browser.connection.call(
                "Browser.getVersion", returns=BrowserVersion, timeout=START_TIME
            )
        except BaseException as error:
            await browser.kill()
            if isinstance(error, BrowserGone | TimeoutError):
                raise Unavailable(
                    f"{program} does not start: {str(error) or 'it does not answer'}; try `{program} --version`"
                ) from error
            raise
        return browser

    async def kill(self) -> None:
        """End the browser and all of its processes, and remove its folder."""
        self.connection.close()
        for step in (_signal_nobody, _kill_group):
            step(self._process)
            try:
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
            except TimeoutError:
                continue
            break
        _kill_group(self._process)  # what outlives its leader
        await self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


async def _spawn(kind: type[BrowserProcess], program: Path, limits: BrowserLimits, folder: Path) -> BrowserProcess:
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    given = {
        "input": from_us,
        "output": to_us,
        "parent": os.getpid(),
        "isolated": limits.isolated,
        "memory": limits.memory,
        "cpu": limits.cpu,
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(LAUNCHER), msgspec.json.encode(given).decode()),
            *(str(program), *browser_arguments(program, folder)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(from_us, to_us),
            start_new_session=True,  # a group of its own, which is killed as one
        )
    except OSError as error:
        os.close(to_browser)
        os.close(from_browser)
        raise Unavailable(f"cannot start {program}: {error}") from error
    finally:
        os.close(from_us)
        os.close(to_us)
    return kind(process, await CdpConnection.open(from_browser, to_browser), folder)


def browser_arguments(program: Path, folder: Path) -> list[str]:
    arguments = [*_ALWAYS, f"--user-data-dir={folder}"]
    if "headless-shell" not in program.name:
        arguments.append("--headless=new")
    if os.geteuid() == 0:  # Chromium refuses its own sandbox to root
        arguments.append("--no-sandbox")
    return arguments


def _signal_nobody(process: asyncio.subprocess.Process) -> None:
    """The pipe is closed: a browser that is well ends by itself."""


def _kill_group(process: asyncio.subprocess.Process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
