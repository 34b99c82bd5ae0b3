"""The frontier of the hybrid crawler is taken over from its Redis and its files, exactly, also when killed."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.services.redis_kinds import private_redis
from tests.unit.cli.command import started, webmill
from webmill.crawl.frontier.local import LocalFrontier

pytestmark = [pytest.mark.server("redis")]
SOON = time.time() + 3000


def fill(url: str, files: Path, *, domains: int = 3, pages: int = 4) -> tuple[set[str], set[str]]:
    """Write what the crawler has left; return the URLs that were visited, and those that wait."""
    visited, waiting = set(), set()
    with redis.Redis.from_url(url) as server:
        for number in range(domains):
            name = f"site{number}.example"
            lines = [f"https://{name}/{page}|{page}|1.0|1699564800.5" for page in range(pages)]
            lines += [f"https://{name}/a|b|2", "not a url|1"]
            path = files / hashlib.md5(name.encode()).hexdigest()[:2] / f"{name}.frontier"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines))
            key = hashlib.sha256(f"https://{name}/0".encode()).hexdigest()[:16]
            done = {"url": f"https://{name}/0", "status_code": 200, "fetched_at": 1699564800}
            server.hset(f"visited:{key}", mapping=done)
            offset = len(lines[0]) + 1
            values = {"frontier_offset": offset, "frontier_size": len(lines), "is_excluded": int(number == 2)}
            robots = {"robots_txt": "User-agent: *\nDisallow: /x", "robots_expires": int(SOON)}
            server.hset(f"domain:{name}", mapping={**values, **robots, "next_fetch_time": int(SOON)})
            server.lpush(f"frontier:{name}", f"https://{name}/list|7")
            visited.add(f"https://{name}/0")
            waiting |= {f"https://{name}/{page}" for page in range(1, pages)}
            waiting |= {f"https://{name}/a|b", f"https://{name}/list"}
        server.zadd("visited:by_time", {"x": 1.0})
        server.set("schema_version", 1)
    return visited, waiting


def found_in(root: Path) -> tuple[set[str], dict[str, int], set[str]]:
    visited, waiting, excluded = set[str](), dict[str, int](), set[str]()
    with ExitStack() as stack:
        for folder in sorted((root / "frontier").glob("shard-*")):
            frontier = stack.enter_context(LocalFrontier(folder))
            visited |= {visit.url for visit in frontier.visits()}
            waiting |= {link.url: link.depth for link in frontier.waiting()}
            excluded |= set(frontier.excluded())
            for number in range(3):
                if entry := frontier.robots(f"https://site{number}.example"):
                    assert b"Disallow: /x" in entry.body
    return visited, waiting, excluded


def test_all_that_the_hybrid_crawler_knew_is_known(tmp_path: Path) -> None:
    with private_redis() as server:
        visited, waiting = fill(server.url, tmp_path / "frontiers")
        root = tmp_path / "c"
        given = ("frontier", "import-redis", root, "--redis", server.url, "--files", tmp_path / "frontiers")
        ended = webmill(*given, "--processes", "2", "--json")
        assert ended.code == 3, ended.err
        counts = json.loads(ended.out)
        assert counts["visited_urls"]["imported"] == 3
        assert sum(counts["frontier"]["rejected"].values()) == 3
        assert "import-frontier.jsonl" in ended.err
        assert counts["domain_metadata"]["imported"] == 3
        seen, waits, excluded = found_in(root)
        assert seen == visited
        assert set(waits) == waiting
        assert waits["https://site1.example/3"] == 3
        assert waits["https://site1.example/list"] == 7
        assert excluded == {"site2.example"}
        again = json.loads(webmill(*given, "--json").out)
        assert (again["frontier"]["imported"], again["visited_urls"]["imported"]) == (0, 0)
        assert found_in(root) == (seen, waits, excluded)


def test_an_import_that_is_killed_and_run_again_has_each_url_once(tmp_path: Path) -> None:
    with private_redis() as server:
        visited, waiting = fill(server.url, tmp_path / "frontiers", domains=40, pages=200)
        root = tmp_path / "c"
        given = ("frontier", "import-redis", root, "--redis", server.url, "--files", tmp_path / "frontiers")
        for delay in (1.0, 1.5):
            with started(*given, "--processes", "2") as process:
                time.sleep(delay + secrets.randbelow(10) / 10)
                process.kill()
                process.wait()
        assert webmill(*given, "--processes", "2").code == 3
        seen, waits, _ = found_in(root)
        assert (seen, set(waits)) == (visited, waiting)


def test_a_folder_without_such_files_is_refused(tmp_path: Path) -> None:
    ended = webmill("frontier", "import-redis", tmp_path / "c", "--files", tmp_path)
    assert (ended.code, "HH/DOMAIN.frontier" in ended.err) == (1, True)
    assert webmill("frontier", "import-redis", tmp_path / "c").code == 2
