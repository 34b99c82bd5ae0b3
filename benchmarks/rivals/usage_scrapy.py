"""Ask for the URLs of a file with Scrapy, obeying robots.txt; print those whose page it gives to its user, as JSON."""

import json
import sys
from pathlib import Path

import scrapy
from scrapy.crawler import CrawlerProcess

kept = []


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for url in json.loads(Path(sys.argv[1]).read_text()):
            yield scrapy.Request(url, callback=self.parse, dont_filter=True)

    def parse(self, response):
        kept.append(response.url)


process = CrawlerProcess(
    {
        "ROBOTSTXT_OBEY": True,
        "USER_AGENT": "webmill/1.0",
        "LOG_ENABLED": False,
        "CONCURRENT_REQUESTS": 32,
        "RETRY_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 20,
        "TELNETCONSOLE_ENABLED": False,
    }
)
process.crawl(Pages)
process.start()
Path(sys.argv[2]).write_text(json.dumps(kept))
