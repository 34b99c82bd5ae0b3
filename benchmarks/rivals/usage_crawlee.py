"""Ask for the URLs of a file with crawlee, obeying robots.txt; write those whose page it gives to its user, as JSON."""

import asyncio
import json
import logging
import sys
from datetime import timedelta
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.http_clients import ImpitHttpClient

kept = []


async def main() -> None:
    crawler = HttpCrawler(
        respect_robots_txt_file=True,
        max_request_retries=0,
        configure_logging=False,
        http_client=ImpitHttpClient(headers={"User-Agent": "webmill/1.0"}),
        concurrency_settings=ConcurrencySettings(max_concurrency=16, desired_concurrency=8),
        request_handler_timeout=timedelta(seconds=20),
    )

    @crawler.router.default_handler
    async def handle(context: HttpCrawlingContext) -> None:
        kept.append(context.request.url)

    await crawler.run(json.loads(Path(sys.argv[1]).read_text()))


logging.disable(logging.CRITICAL)
asyncio.run(main())
Path(sys.argv[2]).write_text(json.dumps(kept))
