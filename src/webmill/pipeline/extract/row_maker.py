"""What makes a row of a capture: the recipe, in a sandbox; or a function of yours, in the worker itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from webmill.commoncrawl.batch import BatchItem, RejectedItem
from webmill.commoncrawl.page import Page
from webmill.errors import BadInput, NotFound
from webmill.extract.capture import SANDBOX_FUNCTION, SANDBOX_LIMITS
from webmill.extract.ignored_elements import IgnoredElements, SelectorRules
from webmill.extract.kinds import ContentKind
from webmill.extract.outcomes import failed_document, unread_document
from webmill.extract.recipe import CaptureInput, ExtractResult, Recipe, capture_input
from webmill.formats.preferences.capture import NO_SITE
from webmill.formats.preferences.notes import statements_of_summary
from webmill.formats.warc.single_record import read_record_at
from webmill.formats.warc.typed_records import FileType
from webmill.infra import custom_function as custom
from webmill.infra.plugins.costs import SpentOnHook, add_up
from webmill.infra.sandbox import Sandbox
from webmill.model import Document
from webmill.pipeline.extract.archived_site import ArchivedSites, open_archived_sites
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.plugins import record_costs

MOST_SPENT = 10_000  # costs of plugins that are kept in memory


class MadeRow(NamedTuple):
    """A row and the kind of its content, where that is known. `value` None: the capture is left out."""

    value: msgspec.Struct | None
    kind: ContentKind = "other"


class RowMaker(Protocol):
    """Makes one row per capture. BadInput, or whatever a function raises, becomes an error record instead of a row."""

    @property
    def type(self) -> type[msgspec.Struct]: ...
    def of_page(self, page: Page) -> MadeRow: ...
    def of_stored(self, item: BatchItem, stored: bytes) -> MadeRow: ...
    def of_unread(self, item: BatchItem, error: BadInput | NotFound) -> MadeRow: ...
    def of_bad_item(self, item: RejectedItem, *, id_: str) -> MadeRow: ...
    def close(self) -> None: ...


def open_row_maker(plan: ExtractPlan) -> RowMaker:
    if plan.function:
        return FunctionRowMaker(plan.function)
    sites = open_archived_sites(plan.source)
    return DocumentRowMaker(plan.recipe, otherwise=plan.otherwise, ignored=plan.ignored, sites=sites)


class DocumentRowMaker:
    """A row for every capture, whatever became of it. The first page of a worker starts its sandboxed child."""

    type = Document

    def __init__(
        self,
        recipe: Recipe,
        *,
        otherwise: str,
        ignored: Sequence[IgnoredElements] = (),
        sites: ArchivedSites | None = None,
    ) -> None:
        """`sites`: what the archived files of a page's site said of its use."""
        self._sites = sites
        self._recipe = self._without_texts = recipe
        self._selectors = SelectorRules(ignored)
        if recipe.extractor == "wet" and otherwise:
            self._without_texts = msgspec.structs.replace(recipe, extractor=otherwise)
        self._spent: list[SpentOnHook] = []
        self._sandbox = Sandbox(SANDBOX_FUNCTION, returns=ExtractResult, limits=SANDBOX_LIMITS)

    def of_page(self, page: Page) -> MadeRow:
        recipe = self._recipe if FileType.WET in page.resume else self._without_texts
        return self._made(capture_input(page, recipe=recipe), page.capture.content)

    def of_stored(self, item: BatchItem, stored: bytes) -> MadeRow:
        said = item.metadata
        languages = tuple(filter(None, said.get("languages", "").split(",")))
        mime = said.get("mime-detected") or said.get("mime", "")
        usage = statements_of_summary(said.get("usage", ""))
        given = CaptureInput(ref=item.capture, recipe=self._recipe, mime=mime, languages=languages, usage=usage)
        return self._made(given, stored)

    def of_unread(self, item: BatchItem, error: BadInput | NotFound) -> MadeRow:
        return MadeRow(failed_document(item.capture, error))

    def of_bad_item(self, item: RejectedItem, *, id_: str) -> MadeRow:
        row = unread_document(item.known, outcome="bad_item", error=f"{item.reason}: {item.message}")
        return MadeRow(msgspec.structs.replace(row, id=id_))

    def close(self) -> None:
        self._sandbox.close()
        self._record_spent()

    def _record_spent(self) -> None:
        record_costs(add_up(self._spent))
        self._spent = []

    def _made(self, given: CaptureInput, data: bytes) -> MadeRow:
        if selectors := self._selectors.of(given.ref.url):
            given = msgspec.structs.replace(given, ignored=selectors)
        if self._sites and given.site is NO_SITE:
            given = msgspec.structs.replace(given, site=self._sites.find(given.ref.url, given.ref.timestamp))
        try:
            made = self._sandbox.call(data, capture=given)
        except BadInput as error:
            return MadeRow(failed_document(given.ref, error))
        self._spent += made.spent
        if len(self._spent) > MOST_SPENT:
            self._record_spent()
        return MadeRow(made.document, made.kind)


class FunctionRowMaker:
    """Your function is given the page; what it returns is the row. A capture that cannot be read is an error."""

    def __init__(self, function: custom.CustomFunction) -> None:
        self._function = custom.load_function(function)
        self.type = custom.result_type(self._function) or Document

    def of_page(self, page: Page) -> MadeRow:
        return MadeRow(self._function(page))

    def of_stored(self, item: BatchItem, stored: bytes) -> MadeRow:
        capture = item.capture
        record = read_record_at(stored, offset=capture.offset)
        place = {FileType.WARC: (capture.offset, capture.end)}
        page: Any = Page(capture=record, offsets=place, resume={FileType.WARC: capture.end}, filename=capture.filename)
        return self.of_page(page)

    def of_unread(self, item: BatchItem, error: BadInput | NotFound) -> MadeRow:
        del item
        raise error

    def of_bad_item(self, item: RejectedItem, *, id_: str) -> MadeRow:
        raise BadInput(f"{id_}: {item.message}", reason=item.reason)

    def close(self) -> None:
        """There is nothing to close."""
