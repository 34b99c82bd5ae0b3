"""A broad crawl by Scrapy, with the settings that its manual gives for one, and WARC by warcio if it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import HtmlResponse, Response
from told import arguments
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

OPTIONS = arguments()
SETTINGS = {
    # https://docs.scrapy.org/en/latest/topics/broad-crawls.html
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "CONCURRENT_REQUESTS": 100,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "INFO",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
    # the race's own
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS_PER_DOMAIN": OPTIONS.per_domain,
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CLOSESPIDER_PAGECOUNT": OPTIONS.pages,
    # 1000 and more: next to the downloader, before bodies are decoded
    "DOWNLOADER_MIDDLEWARES": {"__main__.Archive": 1000} if OPTIONS.warc else {},
}


class Archive:
    """Request and response of every answer, as warcio's own examples write them."""

    def __init__(self, crawler: Crawler) -> None:
        self._file = OPTIONS.warc.open("wb")
        self._writer = WARCWriter(self._file, gzip=True)
        crawler.signals.connect(self.close, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Archive:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        head = StatusAndHeaders(f"{response.status} OK", text_of(response.headers), protocol="HTTP/1.1")
        answer = self._writer.create_warc_record(
            response.url, "response", payload=BytesIO(response.body), http_headers=head
        )
        asked = StatusAndHeaders(f"GET {request.url} HTTP/1.1", text_of(request.headers), is_http_request=True)
        question = self._writer.create_warc_record(request.url, "request", http_headers=asked)
        self._writer.write_request_response_pair(question, answer)
        return response

    def close(self) -> None:
        self._file.close()


def text_of(headers) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    return [(name.decode("latin-1"), value.decode("latin-1")) for name in headers for value in headers.getlist(name)]


class Pages(Spider):
    name = "pages"
    start_urls = OPTIONS.seeds.read_text().split()
    allowed_domains = [urlsplit(url).hostname for url in start_urls] if OPTIONS.stay else []

    def parse(self, response: Response) -> Iterator[Request]:
        """Faster than its LinkExtractor, which would do the same here."""
        if isinstance(response, HtmlResponse):
            for link in response.xpath("//a/@href").getall():
                yield Request(response.urljoin(link))


process = CrawlerProcess(SETTINGS)
process.crawl(Pages)
process.start()
