"""A crawl by crawlee's ParselCrawler, everything in memory. It writes no WARC."""

from __future__ import annotations

import asyncio

from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient
from told import arguments


async def main() -> None:
    options = arguments()
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        # It holds itself back on a busy machine; told that all of it is free, it does not.
        configuration=Configuration(max_used_cpu_ratio=1.0, available_memory_ratio=0.9),
        concurrency_settings=ConcurrencySettings(min_concurrency=50, desired_concurrency=100, max_concurrency=200),
        respect_robots_txt_file=True,
        max_requests_per_crawl=options.pages,
        max_request_retries=0,
        use_session_pool=False,
        http_client=ImpitHttpClient(verify=False),
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.enqueue_links(strategy="same-hostname" if options.stay else "all")

    await crawler.run(options.seeds.read_text().split())


asyncio.run(main())
