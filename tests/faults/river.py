"""The whole river for a set time, with faults on: crawl, index, extract, publish, search; served and asked meanwhile.

    python -m tests.faults.river --minutes 10 --out .cache/river        what `make soak-river` does

The web changes from round to round. `webmill run` is killed with -9 at random, so are processes of `webmill serve`, and
now and then all of it. Every five seconds memory, open files, disk and lag are looked at. In the end everything that
was archived is published, everything that is published is found, `webmill doctor` has nothing to say, and neither
memory nor open files have grown. `OUT.json` has the samples and what happened, `OUT.svg` a picture of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import msgspec
from warcio.archiveiterator import ArchiveIterator

from tests.faults.river_plot import plot
from tests.serve.server_process import DEADLINE, RunningServer, descendants, serving
from webmill.errors import WebmillError
from webmill.search.backends import open_search
from webmill.testing import TestWeb

PROGRAM = [sys.executable, "-m", "webmill", "-q"]
ROUND = 6  # seconds of crawling in a round
GROWTH = 1.5  # from the first to the last third of a soak: more is a leak
PATIENCE = 600
GROWING = ("crawl-data", "cdxj", "cc-index", "documents")  # with all that was ever crawled
RESTART_EVERY, COLLECT_EVERY = 7, 5  # rounds


class Sample(msgspec.Struct, frozen=True):
    """At one moment. Memory and files are those of all processes of the server; `stage` is the memory of the rest."""

    at: float  # seconds
    memory: int  # bytes
    files: int
    stage: int  # bytes
    disk: int  # bytes
    beside: int  # bytes of it in other folders than GROWING
    lag: float  # seconds since the index was as new as what is live


class Event(msgspec.Struct, frozen=True):
    at: float  # seconds
    what: str


class River:
    def __init__(self, root: Path, web: TestWeb, dice: random.Random, *, every: float = 5.0) -> None:
        self.root, self.web, self._dice, self._every = root, web, dice, every
        self.counts: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.events: list[Event] = []  # what was done to it
        self.failures: list[str] = []
        self.lost = 0
        self._stop = threading.Event()
        self._stage: subprocess.Popen[bytes] | None = None
        self._server = ExitStack()
        self._errors = root.with_name("errors")

    def flow(self, seconds: float) -> None:
        """Rounds until the time is over, then one that nobody disturbs."""
        self._began = time.monotonic()
        self._begin()
        self.running = self._serve()
        threads = [threading.Thread(target=work) for work in (self._ask_on, self._sample_on)]
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self._round(self._dice.uniform(0.5, 3 * ROUND) if self._dice.random() < 0.6 else None)
            self._round(None)
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self._server.close()

    # --- what runs ---

    def _begin(self) -> None:
        hosts = {page.url.split("/")[2].partition(":")[0] for page in self.web.pages()}
        resolve = " ".join(f"--resolve {host}={self.web.resolve[host][0]}:{self.web.port}" for host in sorted(hosts))
        self.root.mkdir()
        (self.root / "seeds.txt").write_text(f"{self.web.home}\n")
        flags = f"--allow-private --address-delay 0s --processes 1 --refresh-every 2s {resolve}"
        crawl = {"scope": "any", "delay": "0s", "max_time": f"{ROUND}s", "refresh": True, "flags": flags}
        lines = [f"{name} = {json.dumps(value)}" for name, value in crawl.items()]
        (self.root / "webmill.toml").write_text(
            '[http]\ncontact = "nobody@example.org"\n[crawl]\n' + "\n".join(lines) + "\n"
        )

    def _serve(self) -> RunningServer:
        flags = ("--processes", "2", "--rate", "0")
        return self._server.enter_context(serving(self.root, self._errors, *flags))

    def _round(self, kill_after: float | None) -> None:
        self.counts["rounds"] += 1
        self.web.advance()
        if self.counts["rounds"] % RESTART_EVERY == 0:
            self.running.process.kill()
            self.running.process.wait()
            self._server.close()
            self.running = self._serve()
            self._note("servers killed")
        elif self._dice.random() < 0.3 and (workers := self.running.workers()):
            os.kill(self._dice.choice(workers), signal.SIGKILL)
            self._note("server processes killed")
        self._run("run", str(self.root), kill_after=kill_after)
        if self.counts["rounds"] % COLLECT_EVERY == 0:
            self._run("publish", "gc", str(self.root), "--keep", "2", "--grace", "30s", kill_after=None)

    def _run(self, *command: str, kill_after: float | None) -> None:
        with self.root.with_name("printed").open("w+b") as printed:
            self._stage = subprocess.Popen([*PROGRAM, *command], stdout=printed, stderr=printed, start_new_session=True)
            try:
                code = self._stage.wait(kill_after or PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self._stage.pid, signal.SIGKILL)
                code = self._stage.wait()
                self._note("stages killed")
                self.failures += [] if kill_after else [f"{command[:2]} did not end in {PATIENCE} s"]
            self._stage = None
            printed.seek(0)
            if code not in (0, -signal.SIGKILL):
                self.failures.append(
                    f"{command[:2]} ended with {code}: {printed.read().decode(errors='replace')[-2000:]}"
                )

    def _note(self, what: str) -> None:
        self.counts[what] += 1
        self.events.append(Event(round(time.monotonic() - self._began, 1), what))

    # --- who asks ---

    def _ask_on(self) -> None:
        while not self._stop.is_set():
            try:
                self._ask()
            except (HTTPException, OSError):
                self.counts["answers cut"] += 1
                self._stop.wait(0.05)

    def _ask(self) -> None:
        """The live version, one of its documents, a search: whole answers are right."""
        with closing(HTTPConnection("127.0.0.1", self.running.port, timeout=DEADLINE)) as connection:
            pointer = self._get(connection, "/latest.json")
            if not pointer:
                self._stop.wait(0.2)
                return
            manifest = self._get(connection, f"/snapshots/{json.loads(pointer)['version']}/_manifest.json")
            right = json.loads(pointer)["manifest_sha256"]
            if manifest and hashlib.sha256(manifest).hexdigest() != right:
                self.failures.append("a manifest that is not what the pointer says")
            self._get(connection, "/api/search?q=mill")

    def _get(self, connection: HTTPConnection, path: str) -> bytes | None:
        connection.request("GET", path, headers={"Accept-Encoding": "identity"})
        answer = connection.getresponse()
        body = answer.read()
        self.counts[f"answers {answer.status}"] += 1
        if answer.status >= 500 and answer.status != 503:
            self.failures.append(f"{path}: {answer.status} {body[:300]!r}")
        return body if answer.status == 200 else None

    # --- who looks ---

    def _sample_on(self) -> None:
        even = time.monotonic()
        while not self._stop.wait(self._every):
            now = time.monotonic()
            even = now if self._is_even() else even
            server = [self.running.process.pid, *_family(self.running.process.pid)]
            stage = self._stage
            sizes = _sizes(self.root)
            self.samples.append(
                Sample(
                    at=round(now - self._began, 1),
                    memory=sum(map(_memory, server)),
                    files=sum(map(_files, server)),
                    stage=sum(map(_memory, [stage.pid, *_family(stage.pid)])) if stage else 0,
                    disk=sizes.total(),
                    beside=sizes.total() - sum(sizes[folder] for folder in GROWING),
                    lag=round(now - even, 1),
                )
            )

    def _is_even(self) -> bool:
        try:
            live = json.loads((self.root / "latest.json").read_text())["version"]
            with closing(open_search(str(self.root / "search"), create=False)) as engine:
                return bool(engine.cursor() == live)
        except (OSError, WebmillError):
            return not (self.root / "latest.json").exists()

    # --- the end ---

    def verdict(self) -> list[str]:
        """What is wrong."""
        wrong = list(self.failures)
        published, archived, found = self.published(), self.archived(), self.found()
        self.counts |= Counter({"archived": len(archived), "published": len(published), "found": len(found)})
        lost = [f"{url} is archived, but not published" for url in sorted(archived - published.keys())]
        lost += [f"{url} is published, but not found" for url, id_ in published.items() if id_ not in found]
        self.lost, wrong = len(lost), [*wrong, *lost]
        wrong += [f"{id_} is found, but not published" for id_ in sorted(found - set(published.values()))]
        printed = subprocess.run(
            [*PROGRAM, "doctor", str(self.root), "--read-data", "--json"], capture_output=True, check=False
        )
        findings = [json.loads(line) for line in printed.stdout.splitlines()]
        wrong += [f"doctor: {finding}" for finding in findings if finding["state"] == "bad"]
        wrong += [] if findings else [f"doctor said nothing: {printed.stderr.decode()[-500:]}"]
        wrong += [
            f"{name} grew by {growth:.2f}" for name in ("memory", "files") if (growth := self.growth(name)) > GROWTH
        ]
        return wrong

    def growth(self, name: str) -> float:
        """From the first third to the last, the very first samples left out: there was nothing to serve yet."""
        values = [getattr(sample, name) for sample in self.samples[3:]]
        third = len(values) // 3
        if not third:
            return 1.0
        return float(statistics.median(values[-third:]) / max(1, statistics.median(values[:third])))

    def published(self) -> dict[str, str]:
        """URL: id, read by nothing of ours."""
        pointer = json.loads((self.root / "latest.json").read_text())
        index = json.loads((self.root / "snapshots" / pointer["version"] / "index" / "all.json").read_text())
        items = index.get("items") or [
            item
            for shard in index["shards"]
            for item in json.loads((self.root / "blobs" / "sha256" / f"{shard['hash']}.json").read_text())
        ]
        return {item["metadata"]["url"]: item["id"] for item in items}

    def archived(self) -> set[str]:
        """Pages that answered, by warcio."""
        urls = set()
        for path in self.root.glob("crawl-data/*/segments/*/warc/*.warc.gz"):
            with path.open("rb") as stream:
                for one in ArchiveIterator(stream):
                    if one.rec_type == "response" and "html" in (one.http_headers.get_header("Content-Type") or ""):
                        urls.add(one.rec_headers.get_header("WARC-Target-URI"))
        return urls

    def found(self) -> set[str]:
        with closing(open_search(str(self.root / "search"), create=False)) as engine:
            return set(dict(engine.keys()))


def _family(pid: int) -> list[int]:
    with suppress(OSError):
        return descendants(pid)
    return []


def _memory(pid: int) -> int:
    """What is its own or its share of it: processes that were forked share much."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _files(pid: int) -> int:
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def _sizes(root: Path) -> Counter[str]:
    """Bytes in each folder of a collection. Files and folders may go while we look."""
    sizes: Counter[str] = Counter()
    for folder, _, names in os.walk(root):
        within = Path(folder).relative_to(root).parts
        for name in names:
            with suppress(OSError):
                sizes[within[0] if within else name] += (Path(folder) / name).stat().st_size
    return sizes


def soak(seconds: float, *, seed: int, out: Path, every: float = 5.0) -> tuple[River, list[str]]:
    """What there was, and what is wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="webmill-river-") as folder,
        TestWeb(seed=seed % 100, hosts=4, pages_per_host=10) as web,
    ):
        river = River(Path(folder) / "collection", web, random.Random(seed), every=every)
        river.flow(seconds)
        wrong = river.verdict()
        folders = _sizes(river.root)
    out.parent.mkdir(parents=True, exist_ok=True)
    reported: dict[str, Any] = {"seed": seed, "seconds": seconds, "counts": river.counts, "wrong": wrong}
    reported |= {
        "growth": {name: round(river.growth(name), 2) for name in ("memory", "files")},
        "samples": river.samples,
    }
    reported |= {"events": river.events, "folders": folders}
    out.with_suffix(".json").write_bytes(msgspec.json.format(msgspec.json.encode(reported), indent=1))
    samples = [msgspec.structs.asdict(sample) for sample in river.samples]
    out.with_suffix(".svg").write_text(plot(samples, [(event.at, event.what) for event in river.events]))
    return river, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--out", type=Path, default=Path(".cache/river"))
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.minutes:g} minutes", file=sys.stderr, flush=True)
    river, wrong = soak(given.minutes * 60, seed=given.seed, out=given.out)
    print(f"{dict(sorted(river.counts.items()))}\n{given.out}.svg, {given.out}.json", file=sys.stderr)
    print("\n".join(wrong) if wrong else "nothing is lost, nothing has grown", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
