"""English pages with status 200, from the index of a crawl to a queue, beside the batcher of the reference.

The rival is written after the reference's description: csv.reader over cluster.idx, a request per block,
gzip.decompress, json.loads of every line, a message per 50 captures, one after the other. It gets the exact filter and
keeps spaces, so that all agree on the set. The server is nginx on this machine. "50 ms away" puts a relay before it
that holds every byte back for 25 ms in each direction: less than S3 takes to answer, and without the handshake of TLS.

"One domain" is the same question about the hosts of one domain. The reference has no such filter: it reads the whole
index and looks at each key; we find the blocks by bisection.

A batcher is waited for, so wall-clock time is told too. Ours inflates, sifts and stores in threads of one process and
so keeps two cores busy; the reference does one thing after the other.

What CPU time cannot fall below is raced as well: the same bytes fetched, inflated and put into the queue, unseen.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import multiprocessing
import os
import random
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import requests
from tests.services.nginx import nginx_serving

from benchmarks.frame import Contestant, Result, measure, race
from webmill.cli.cc.selection_flags import AdjacentBlocks
from webmill.commoncrawl.selection import Selection
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import decode_block, encode_block
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.http import HttpStorage
from webmill.pipeline.dispatch.batcher import BatcherContext, BatcherOptions, IndexSource, dispatch
from webmill.pipeline.dispatch.blocks import BLOCKS_AT_ONCE
from webmill.pipeline.dispatch.metrics import ALL

BLOCKS, LINES = 300, 3000
AMQP = "WEBMILL_TEST_AMQP_URL"
HALF_WAY = 0.025  # seconds
LANGUAGES = ["eng"] * 44 + ["rus", "deu", "zho", "jpn", "spa", "fra", "deu,eng", "fra,eng", "rus,eng", "zho,eng"] * 6
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


# --- an index like Common Crawl's -------------------------------------------------------------------------------------


def lines_like_common_crawl(seed: int) -> list[bytes]:
    dice = random.Random(seed)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 9))) for _ in range(2000)]
    lines, host = [], ""
    for number in range(LINES):
        host = dice.choice(words) if number % 20 == 0 else host
        path = "/".join(dice.choices(words, k=dice.randint(1, 4)))
        status = dice.choices(["200", "301", "404", "302"], [75, 12, 8, 5])[0]
        folder = (
            f"{dice.randint(10**12, 10**13)}.{dice.randint(10, 99)}/{'warc' if status == '200' else 'crawldiagnostics'}"
        )
        fields = {
            "url": f"https://www.{host}.com/{path}",
            "mime": "text/html",
            "mime-detected": "text/html",
            "status": status,
            "digest": "".join(dice.choices(ALPHABET, k=32)),
            "length": str(dice.randint(500, 90_000)),
            "offset": str(dice.randint(0, 10**9)),
            "filename": f"crawl-data/CC-MAIN-2024-30/segments/{folder}/CC-MAIN-20240722120756-20240722150756-"
            f"{dice.randint(0, 899):05d}.warc.gz",
        }
        if status == "200":
            fields |= {"charset": "UTF-8", "languages": dice.choice(LANGUAGES)}
        elif status in ("301", "302"):
            fields["redirect"] = f"https://www.{host}.com/{path}/"
        lines.append(f"com,{host})/{path} 202407221207{dice.randint(10, 59)} {json.dumps(fields)}\n".encode())
    return sorted(lines)


def write_index(folder: Path) -> None:
    """Few different blocks, told apart by their keys: the lines are as long and as compressible as real ones."""
    kinds = [lines_like_common_crawl(seed) for seed in range(6)]
    shard, summary = bytearray(), []
    for number in range(BLOCKS):
        lines = [b"com,%05d" % number + line[4:] for line in kinds[number % len(kinds)]]
        data = encode_block(lines)
        key = b" ".join(lines[0].split(b" ", 2)[:2])
        summary.append(b"%b\tcdx-00000.gz\t%d\t%d\t%d\n" % (key, len(shard), len(data), number + 1))
        shard += data
    (folder / "cdx-00000.gz").write_bytes(shard)
    (folder / "cluster.idx").write_bytes(b"".join(summary))


# --- the contestants --------------------------------------------------------------------------------------------------

Publish = Callable[[bytes], None]


def reference(base_url: str, cluster: Path, publish: Publish, *, key: str = "") -> int:
    batch: list[dict[str, object]] = []
    found = 0
    with cluster.open() as file:
        for row in csv.reader(file, delimiter="\t"):
            start, length = int(row[2]), int(row[3])
            headers = {"Range": f"bytes={start}-{start + length - 1}"}
            answer = requests.get(f"{base_url}/{row[1]}", headers=headers, timeout=60)
            for line in gzip.decompress(answer.content).decode().split("\n"):
                if line == "":
                    continue
                surt, timestamp, rest = line.split(" ", 2)
                metadata = json.loads(rest)
                english = "eng" in metadata.get("languages", "").split(",")
                if english and metadata["status"] == "200" and surt.startswith(key):
                    batch.append({"surt_url": surt, "timestamp": timestamp, "metadata": metadata})
                    found += 1
                if len(batch) >= 50:
                    publish(json.dumps(batch).encode())
                    batch = []
    if batch:
        publish(json.dumps(batch).encode())
    return found


def reference_to_sqlite(base_url: str, folder: Path, *, key: str = "") -> int:
    with closing(SqliteQueue(folder / secrets.token_hex(4))) as queue:

        def publish(body: bytes) -> None:
            queue.publish([Message(secrets.token_hex(8), body)])

        return reference(base_url, folder / "cluster.idx", publish, key=key)


def reference_to_rabbitmq(base_url: str, folder: Path, url: str) -> int:
    """As the reference does it: no confirms, nothing durable."""
    import pika  # type: ignore[import-untyped]

    name = f"bench-{secrets.token_hex(6)}"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(queue=name)
    found = reference(
        base_url, folder / "cluster.idx", lambda body: channel.basic_publish(exchange="", routing_key=name, body=body)
    )
    channel.queue_delete(name)
    connection.close()
    return found


def ours(base_url: str, folder: Path, *, key: str = "") -> int:
    ranges = (KeyRange(key.encode(), key[:-1].encode() + bytes([ord(key[-1]) + 1])),) if key else ()
    with (
        closing(HttpStorage(base_url, user_agent="benchmark")) as storage,
        closing(SqliteQueue(folder / secrets.token_hex(4))) as queue,
    ):
        return dispatch(
            IndexSource("bench", storage, "cluster.idx", AdjacentBlocks(storage, "cluster.idx")),
            Selection(statuses=("200",), languages=("eng",), ranges=ranges),
            queue,
            root=folder / secrets.token_hex(4),
            executor=None,
            options=BatcherOptions(max_queued=10**9),
            around=BatcherContext(Metrics(ALL)),
        ).counts.accepted


def unseen(base_url: str, folder: Path, *, captures: int) -> int:
    """As many bytes fetched and inflated, as many put into the queue, and nothing looked at: what cannot be saved."""
    rows = [row.split("\t") for row in (folder / "cluster.idx").read_text().splitlines()]
    with (
        closing(HttpStorage(base_url, user_agent="benchmark")) as storage,
        closing(SqliteQueue(folder / secrets.token_hex(4))) as queue,
    ):
        published = 0
        for at in range(0, len(rows), BLOCKS_AT_ONCE):
            blocks = [(int(row[2]), int(row[3])) for row in rows[at : at + BLOCKS_AT_ONCE]]
            first, end = blocks[0][0], sum(blocks[-1])
            data = storage.read("cdx-00000.gz", start=first, length=end - first)
            texts = [decode_block(data[start - first :][:length]) for start, length in blocks]
            share = captures * len(blocks) // (len(rows) * 50)
            size = sum(map(len, texts)) // (LINES * len(blocks)) * 55  # 50 captures, with the names of their fields
            queue.publish([Message(secrets.token_hex(8), texts[0][:size]) for _ in range(share)])
            published += share * 50
    return published


# --- the race ---------------------------------------------------------------------------------------------------------


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_index(folder)
        with nginx_serving(folder) as server, relay(server.port) as port:
            far = f"http://127.0.0.1:{port}"
            found = compare("all of it, a server on this machine", server.url, folder, amqp=os.environ.get(AMQP))
            _, cpu = measure(partial(unseen, server.url, folder, captures=found.count))
            print(f"\nThe same bytes fetched, inflated and stored unseen: {cpu / found.cpu:.2f} of our CPU time.")
            compare("all of it, a server 50 ms away", far, folder)
            compare("one domain, a server 50 ms away", far, folder, key="com,00123")


def compare(what: str, url: str, folder: Path, *, key: str = "", amqp: str | None = None) -> Result:
    contestants: dict[str, Contestant] = {
        "webmill cc batch, to SQLite": partial(ours, url, folder, key=key),
        "reference's batcher, to SQLite": partial(reference_to_sqlite, url, folder, key=key),
    }
    if amqp:
        contestants["reference's batcher, to RabbitMQ, unconfirmed"] = partial(reference_to_rabbitmq, url, folder, amqp)
    took: dict[str, list[float]] = {name: [] for name in contestants}
    timed = {name: partial(_timed, contestant, took[name]) for name, contestant in contestants.items()}
    results = race(f"Batching, {BLOCKS} blocks of {LINES:,} lines: {what}", timed, unit="captures", rounds=1)
    tell_times(took)
    return next(iter(results.values()))


def _timed(contestant: Contestant, took: list[float]) -> int:
    began = time.perf_counter()
    count = contestant()
    took.append(time.perf_counter() - began)
    return count


def tell_times(took: Mapping[str, list[float]]) -> None:
    first = min(next(iter(took.values())))
    print("\n| | lines/s | times our wall-clock time |\n|---|---:|---:|")
    for name, times in took.items():
        print(f"| {name} | {BLOCKS * LINES / min(times):,.0f} | {min(times) / first:.1f} |")


# --- distance ---------------------------------------------------------------------------------------------------------


@contextmanager
def relay(port: int) -> Iterator[int]:
    """A port behind which `port` is, 25 milliseconds away."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        process = multiprocessing.get_context("fork").Process(target=_relay, args=(listener, port), daemon=True)
        process.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()
            process.join()


def _relay(listener: socket.socket, port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * HALF_WAY)  # the handshake
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, forth))
            group.create_task(_pump(back, writer))

    async def serve() -> None:
        async with await asyncio.start_server(accept, sock=listener, limit=1 << 20) as server:
            await server.serve_forever()

    asyncio.run(serve())


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Late, but not slow: what comes meanwhile is on its way too."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(1 << 20):
        loop.call_later(HALF_WAY, writer.write, data)
    loop.call_later(HALF_WAY, writer.close)


if __name__ == "__main__":
    main()
