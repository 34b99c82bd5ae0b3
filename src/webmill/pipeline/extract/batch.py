"""One batch to its rows: fetch, read in the sandbox, one row for every item, in the order of the batch."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator

from webmill.commoncrawl.batch import BadItem, BatchItem, decode_batch, number_of
from webmill.commoncrawl.captures import Fetcher
from webmill.errors import BadInput
from webmill.extract.head import HTML, media_type
from webmill.infra.metrics import Metrics
from webmill.infra.sandbox import Sandbox
from webmill.pipeline.extract import metrics as counters
from webmill.pipeline.extract.output import Shape
from webmill.pipeline.extract.page import Reading
from webmill.pipeline.extract.rows import Row, RowMaker
from webmill.pipeline.extract.spool import Spooled, spool

log = logging.getLogger(__name__)


def named(id_: str, body: bytes) -> tuple[str, int]:
    """The run and number of a message. One from another batcher is a run of its own, named by what it says."""
    return number_of(id_) or (hashlib.sha256(body).hexdigest()[:12], 1)


class BatchReader:
    """`checkpoint` is called between pages and may raise to give up."""

    def __init__(self, fetcher: Fetcher, sandbox: Sandbox[Reading], shape: Shape, metrics: Metrics) -> None:
        self._fetcher = fetcher
        self._sandbox = sandbox
        self._shape = shape
        self._metrics = metrics

    def read(self, id_: str, body: bytes, *, checkpoint: Callable[[], None]) -> Spooled:
        """BadInput: no batch. Unavailable, Misconfigured: the archive cannot be read now."""
        items = decode_batch(body)
        self._metrics.count(counters.ITEMS, len(items))
        make = RowMaker(batch=id_, extractor=self._shape.extractor, detect=self._shape.detect)
        rows = dict(self._rows(items, make, checkpoint))
        return spool(id_, (rows[number] for number in range(len(items))), keep=self._shape.keep)

    def _rows(
        self, items: list[BatchItem | BadItem], make: RowMaker, checkpoint: Callable[[], None]
    ) -> Iterator[tuple[int, Row]]:
        wanted = {number: item for number, item in enumerate(items) if isinstance(item, BatchItem)}
        for number, item in enumerate(items):
            if isinstance(item, BadItem):
                yield number, self._counted(make.of_bad_item(item))
        for number, stored in self._fetcher.fetch({number: item.capture for number, item in wanted.items()}):
            checkpoint()
            item = wanted[number]
            row = self._read(item, stored, make) if isinstance(stored, bytes) else make.of_failure(item, stored)
            yield number, self._counted(row)

    def _read(self, item: BatchItem, stored: bytes, make: RowMaker) -> Row:
        try:
            reading = self._sandbox.call(
                stored,
                url=item.capture.url,
                offset=item.capture.offset,
                mime=mime_of(item),
                extractor=self._shape.extractor,
                detect=self._shape.detect,
            )
        except BadInput as error:
            log.info("a capture without text", extra={"url": item.capture.url, "why": str(error)})
            return make.of_failure(item, error)
        self._metrics.count(counters.RECORDS)
        is_response = reading.record == "response"
        self._metrics.count(counters.RESPONSES if is_response else counters.OTHER_RECORDS)
        return make.of_page(item, reading)

    def _counted(self, row: Row) -> Row:
        self._metrics.count(counters.PROCESSED)
        if counter := counters.BY_EXTRACTION.get(row.extraction):
            self._metrics.count(counter)
        return row


def mime_of(item: BatchItem) -> str:
    """What the index found the content to be; what the server said only where that is HTML."""
    said = media_type(item.metadata.get("mime"))
    return media_type(item.metadata.get("mime-detected")) or (said if said in HTML else None) or ""
