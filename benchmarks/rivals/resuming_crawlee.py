"""A crawl by crawlee that its manual can resume: storage in files, which a run does not purge when it starts."""

from __future__ import annotations

import asyncio

from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import FileSystemStorageClient
from resuming import arguments


async def main() -> None:
    options = arguments()
    crawler = ParselCrawler(
        storage_client=FileSystemStorageClient(),
        # The first two: on a busy machine it would hold itself back.
        configuration=Configuration(
            max_used_cpu_ratio=1.0,
            available_memory_ratio=0.9,
            purge_on_start=False,
            storage_dir=str(options.folder / "storage"),
        ),
        respect_robots_txt_file=True,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        body = (await context.http_response.read()).decode()
        await context.push_data({"url": context.request.url, "body": body})
        await context.enqueue_links(strategy="all")

    await crawler.run([options.seed])


asyncio.run(main())
