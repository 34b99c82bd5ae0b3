"""A crawl by Scrapy that its manual can resume: JOBDIR, and a feed of JSON lines, to which a later run appends."""

from __future__ import annotations

from collections.abc import Iterator

from resuming import arguments
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response

OPTIONS = arguments()
SETTINGS = {
    "JOBDIR": str(OPTIONS.folder / "job"),
    "FEEDS": {str(OPTIONS.folder / "pages.jsonl"): {"format": "jsonlines"}},
    "ROBOTSTXT_OBEY": True,
    "DOWNLOAD_DELAY": 0,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "LOG_LEVEL": "INFO",
}


class Pages(Spider):
    name = "pages"
    start_urls = (OPTIONS.seed,)

    def parse(self, response: Response) -> Iterator[Request | dict[str, str]]:
        yield {"url": response.url, "body": response.text}
        for link in response.xpath("//a/@href").getall():
            yield Request(response.urljoin(link))


process = CrawlerProcess(SETTINGS)
process.crawl(Pages)
process.start()
