"""Filling a hash in a real Redis: by the function, by `webmill cdxj paths redis`, by the old names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from tests.services.base import Running, answers, binary, free_port
from tests.services.redis import ENV
from tests.unit.cli.command import dropin, webmill
from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra.redis_hash import fill_hash, replace_hash

pytestmark = pytest.mark.server("redis")

KEY = f"webmill-test-paths-{os.getpid()}"  # one server serves several test processes
PAIRS = [(b"%d.warc.gz" % number, b"/data/%d.warc.gz" % number) for number in range(1234)]


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        client.delete(KEY)
        yield client
        client.delete(KEY)


def test_all_pairs_are_there_whatever_the_batch(redis_url: str, client: redis.Redis) -> None:
    for batch in (1, 500, 5000):
        client.delete(KEY)
        assert fill_hash(redis_url, KEY, PAIRS, batch=batch) == 1234
        assert client.hgetall(KEY) == dict(PAIRS)


def test_filling_twice_changes_nothing_and_keeps_other_fields(redis_url: str, client: redis.Redis) -> None:
    client.hset(KEY, "old", "1")
    fill_hash(redis_url, KEY, PAIRS)
    fill_hash(redis_url, KEY, PAIRS)
    assert client.hgetall(KEY) == {b"old": b"1", **dict(PAIRS)}


def test_replacing_leaves_nothing_of_the_old(redis_url: str, client: redis.Redis) -> None:
    client.hset(KEY, "old", "1")
    assert replace_hash(redis_url, KEY, PAIRS) == 1234
    assert client.hgetall(KEY) == dict(PAIRS)
    assert replace_hash(redis_url, KEY, []) == 0
    assert not client.exists(KEY)


def test_readers_see_the_old_hash_until_the_new_one_is_complete(redis_url: str, client: redis.Redis) -> None:
    client.hset(KEY, "old", "1")
    seen = []

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        for pair in PAIRS:
            seen.append(client.hlen(KEY))
            yield pair

    replace_hash(redis_url, KEY, pairs(), batch=100)
    assert set(seen) == {1}


def test_a_load_that_fails_leaves_the_old_hash_and_nothing_else(redis_url: str, client: redis.Redis) -> None:
    client.hset(KEY, "old", "1")
    before = set(client.scan_iter(f"*{KEY}*"))

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        yield from PAIRS
        raise BadInput("torn", reason="test")

    with pytest.raises(BadInput):
        replace_hash(redis_url, KEY, pairs(), batch=100)
    assert client.hgetall(KEY) == {b"old": b"1"}
    assert set(client.scan_iter(f"*{KEY}*")) == before


def test_a_key_of_another_kind_is_refused(redis_url: str, client: redis.Redis) -> None:
    client.set(KEY, "text")
    with pytest.raises(Misconfigured, match="refused: WRONGTYPE"):
        fill_hash(redis_url, KEY, PAIRS)


def test_a_wrong_password_and_no_server_are_told_apart_and_no_password_is_told(redis_url: str) -> None:
    parts = urlsplit(redis_url)
    with pytest.raises(Misconfigured) as refused:
        fill_hash(f"redis://nobody:secret@{parts.hostname}:{parts.port}/0", KEY, PAIRS)
    with pytest.raises(Unavailable) as missing:
        fill_hash(f"redis://:secret@127.0.0.1:{free_port()}/0", KEY, PAIRS)
    assert "secret" not in f"{refused.value}{missing.value}"


def test_the_command_loads_first_paths_and_counts_the_others(
    redis_url: str, client: redis.Redis, tmp_path: Path
) -> None:
    client.hset(KEY, "old", "1")
    index = tmp_path / "path-index"
    index.write_bytes(b"a.warc.gz\t/1/a.warc.gz\t/2/a.warc.gz\n# comment\n\nb.warc.gz\thttp://h/b.warc.gz\n")
    done = webmill("cdxj", "paths", "redis", index, "-k", KEY, "--url", redis_url, "--clear")
    assert (done.code, done.err) == (0, "# Loaded 2 files; 1 additional paths ignored\n")
    assert client.hgetall(KEY) == {b"a.warc.gz": b"/1/a.warc.gz", b"b.warc.gz": b"http://h/b.warc.gz"}


def test_a_bad_line_is_named_and_the_hash_stays(redis_url: str, client: redis.Redis) -> None:
    client.hset(KEY, "old", "1")
    done = webmill("cdxj", "paths", "redis", "-k", KEY, "--url", redis_url, "--clear", stdin=b"a\t/a\nno path\n")
    assert done.code == 1
    assert "stdin:2: not a file name, a TAB and a path" in done.err
    assert client.hgetall(KEY) == {b"old": b"1"}


def place(url: str) -> list[str]:
    parts = urlsplit(url)
    return ["-k", KEY, "--host", str(parts.hostname), "--port", str(parts.port), "--db", parts.path.strip("/") or "0"]


def test_path_index_to_redis(redis_url: str, client: redis.Redis) -> None:
    text = b"a.warc.gz\t/1/a.warc.gz\nb.warc.gz\t/1/b.warc.gz\n"
    done = dropin("path-index-to-redis", "-i", "-", *place(redis_url), "--batch-size", "1", "-v", stdin=text)
    assert (done.code, done.err) == (0, "# Entries submitted: 2\n")
    assert client.hget(KEY, "b.warc.gz") == b"/1/b.warc.gz"


def test_a_dry_run_writes_nothing(redis_url: str, client: redis.Redis) -> None:
    done = dropin("path-index-to-redis", "-i", "-", *place(redis_url), "--dry-run", stdin=b"a\t/a\n")
    assert done.code == 0
    assert "DRY RUN MODE" in done.err
    assert not client.exists(KEY)


def test_arclist_index_to_redis(redis_url: str, client: redis.Redis, tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_bytes(b"/data/a.warc.gz\nhttps://h/b.warc.gz\n")
    (tmp_path / "2.txt").write_bytes(b"# more\n/data/c.warc.gz\n")
    done = dropin("arclist-index-to-redis", "-d", tmp_path, *place(redis_url), "--clear")
    assert done.code == 0, done.err
    assert client.hlen(KEY) == 3
    assert client.hget(KEY, "b.warc.gz") == b"https://h/b.warc.gz"


def test_no_server_is_code_1(tmp_path: Path) -> None:
    done = dropin("path-index-to-redis", "-i", "-", "-k", KEY, "--port", str(free_port()), stdin=b"a\t/a\n")
    assert done.code == 1
    assert "not available now: no Redis at" in done.err


def test_a_cluster_and_a_socket_are_reached_too(tmp_path: Path) -> None:
    """One node that has all slots is a cluster."""
    server = binary("redis-server", package="redis-server", setting=ENV)
    client = shutil.which("redis-cli") or pytest.skip("no redis-cli to make a cluster with")
    port, socket = free_port(), tmp_path / "redis.sock"
    command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    command += ["--cluster-enabled", "yes", "--unixsocket", str(socket), "--cluster-port", str(free_port())]
    running = Running("redis", f"redis://127.0.0.1:{port}/0", command, tmp_path, lambda: answers(port)).start()
    try:
        ask = [client, "-p", str(port)]
        subprocess.run([*ask, "cluster", "addslotsrange", "0", "16383"], check=True, capture_output=True)
        while (
            b"cluster_state:ok" not in subprocess.run([*ask, "cluster", "info"], check=True, capture_output=True).stdout
        ):
            pass
        flags = ["-i", "-", "-k", KEY, "--clear"]
        for where in (["--cluster", "--host", "127.0.0.1", "--port", str(port)], ["--socket", str(socket)]):
            done = dropin("path-index-to-redis", *flags, *where, stdin=b"a\t/a\nb\t/b\n")
            assert done.code == 0, done.err
            assert subprocess.run([*ask, "hlen", KEY], check=True, capture_output=True).stdout == b"2\n"
    finally:
        running.stop()
