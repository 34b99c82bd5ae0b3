"""A crawl by crawlee's PlaywrightCrawler, everything in memory: it waits for `load`, or does what webmill does."""

from __future__ import annotations

import argparse
import asyncio
from datetime import timedelta
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import PlaywrightCrawler, PlaywrightCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

SCROLL = """() => {
  window.scrollBy({top: innerHeight, behavior: "instant"});
  return [scrollY + innerHeight, document.body.scrollHeight];
}"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=Path)
    parser.add_argument("--browser", required=True)
    parser.add_argument("--tabs", type=int, required=True)
    parser.add_argument("--whole", action="store_true", help="wait until it is quiet, scroll, take pictures and text")
    return parser.parse_args()


async def see_whole(context: PlaywrightCrawlingContext) -> None:
    page = context.page
    await page.wait_for_load_state("networkidle")
    seen, height = 0, 1
    while seen < height:
        seen, height = await page.evaluate(SCROLL)
        await page.wait_for_timeout(150)
    await page.inner_text("body")
    await page.content()
    await page.screenshot()
    await page.screenshot(type="jpeg", quality=70)


async def main() -> None:
    options = arguments()
    crawler = PlaywrightCrawler(
        storage_client=MemoryStorageClient(),
        # It holds itself back on a busy machine; told that all of it is free, it does not.
        configuration=Configuration(max_used_cpu_ratio=1.0, available_memory_ratio=0.9),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=options.tabs, desired_concurrency=options.tabs, max_concurrency=options.tabs
        ),
        max_request_retries=0,
        request_handler_timeout=timedelta(seconds=120),
        headless=True,
        browser_launch_options={"executable_path": options.browser, "chromium_sandbox": False},
        fingerprint_generator=None,
    )

    @crawler.router.default_handler
    async def handle(context: PlaywrightCrawlingContext) -> None:
        if options.whole:
            await see_whole(context)
        else:
            await context.page.content()
        await context.enqueue_links(strategy="same-hostname")

    await crawler.run(options.seeds.read_text().split())


asyncio.run(main())
