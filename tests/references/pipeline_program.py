"""commoncrawl-pipeline as its document has it, line by line: what shares a queue with webmill must be this.

    RABBITMQ_CONNECTION_STRING=amqp://… python -m tests.references.pipeline_program batcher BASE_URL cluster.idx
    RABBITMQ_CONNECTION_STRING=amqp://… python -m tests.references.pipeline_program worker BASE_URL BATCHES

The worker of the document works for ever; this one ends after so many batches, and prints the texts that it extracted.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import requests
import trafilatura
from warcio.archiveiterator import ArchiveIterator

CRAWL_PATH = "cc-index/collections/CC-MAIN-2024-30/indexes"
BATCH_SIZE = 50
QUEUE_NAME = "batches"


def rabbitmq_channel() -> Any:
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_CONNECTION_STRING"]))
    channel = connection.channel()
    channel.queue_declare(queue=QUEUE_NAME)
    return channel


class CCDownloader:
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def download_and_unzip(self, url: str, start: int, length: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        response = requests.get(f"{self.base_url}/{url}", headers=headers, timeout=60)
        response.raise_for_status()
        return gzip.decompress(response.content)


def publish_batch(channel: Any, batch: list[dict[str, Any]]) -> None:
    channel.basic_publish(exchange="", routing_key=QUEUE_NAME, body=json.dumps(batch))


def read_chunk(data: str) -> Iterator[dict[str, Any]]:
    for line in data.split("\n"):
        if line:
            values = line.split(" ")
            metadata = json.loads("".join(values[2:]))
            if "languages" in metadata and "eng" in metadata["languages"] and metadata["status"] == "200":
                yield {"surt_url": values[0], "timestamp": values[1], "metadata": metadata}


def run_batcher(base_url: str, cluster_idx: str) -> None:
    channel = rabbitmq_channel()
    downloader = CCDownloader(f"{base_url}/{CRAWL_PATH}")
    found_urls: list[dict[str, Any]] = []
    with Path(cluster_idx).open() as file:
        for cdx_chunk in csv.reader(file, delimiter="\t"):
            data = downloader.download_and_unzip(cdx_chunk[1], int(cdx_chunk[2]), int(cdx_chunk[3])).decode()
            for found in read_chunk(data):
                found_urls.append(found)
                if len(found_urls) >= BATCH_SIZE:
                    publish_batch(channel, found_urls)
                    found_urls = []
    if found_urls:
        publish_batch(channel, found_urls)
    channel.connection.close()


def run_worker(base_url: str, batches: str) -> None:
    downloader = CCDownloader(base_url)
    channel = rabbitmq_channel()
    channel.basic_qos(prefetch_count=1)
    print("waiting", flush=True)
    left = int(batches)

    def process_batch(ch: Any, method: Any, _properties: Any, body: bytes) -> None:
        nonlocal left
        for item in json.loads(body):
            found = item["metadata"]
            data = downloader.download_and_unzip(found["filename"], int(found["offset"]), int(found["length"]))
            for record in ArchiveIterator(io.BytesIO(data)):
                if record.rec_type == "response":
                    text = trafilatura.extract(record.content_stream().read())
                    print(json.dumps([found["url"], text]), flush=True)
        ch.basic_ack(delivery_tag=method.delivery_tag)
        left -= 1
        if not left:
            ch.stop_consuming()

    channel.basic_consume(queue=QUEUE_NAME, on_message_callback=process_batch)
    channel.start_consuming()
    channel.connection.close()


if __name__ == "__main__":
    {"batcher": run_batcher, "worker": run_worker}[sys.argv[1]](*sys.argv[2:])
