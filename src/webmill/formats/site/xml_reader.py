"""Read XML of the web by events, as feeds and sitemaps need it.

XML is hostile input: a document that declares entities is refused, nothing is fetched, and the depth is limited.
Prefixes are split off, because many documents use some that they do not declare.
"""

from __future__ import annotations

from typing import Protocol
from xml.parsers import expat

from webmill.errors import BadInput


class XmlHandler(Protocol):
    """What a document is made of, in its order. Each method may raise `ReadingStopped`, or refuse it by BadInput."""

    def begin(self, root: str, prefix: str, attributes: dict[str, str]) -> None:
        """Accept the root element, which `start` gets as well."""

    def start(self, name: str, prefix: str, attributes: dict[str, str]) -> None: ...

    def characters(self, text: str) -> None: ...

    def end(self, name: str) -> None: ...

    def doctype(self, name: str, system: str | None, public: str | None, has_subset: int) -> None: ...


class ReadingStopped(Exception):
    """Raised where a limit is reached: what comes before it is kept, with this flaw."""

    def __init__(self, flaw: str) -> None:
        super().__init__(flaw)
        self.flaw = flaw


class XmlReader:
    """`parser` is expat's, for what a kind of document needs besides."""

    def __init__(self, handler: XmlHandler, *, max_depth: int) -> None:
        self._handler, self._max_depth = handler, max_depth
        self._names: list[str] = []
        self._began = False
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = handler.doctype
        self.parser.EntityDeclHandler = refuse_entities
        self.parser.ExternalEntityRefHandler = refuse_entities
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = handler.characters

    @property
    def depth(self) -> int:
        """Return how many elements are open, with the one that starts or ends."""
        return len(self._names)

    @property
    def parent(self) -> str:
        """Return the name of the element around the one that starts or ends."""
        return self._names[-2] if len(self._names) > 1 else ""

    def read(self, data: bytes, *, reason: str) -> str:
        """Read a document in UTF-8. Return the flaw that ended it early, or nothing. BadInput: it never was XML."""
        try:
            self.parser.Parse(data, True)  # in one call: expat scans an unfinished token again for every piece
        except ReadingStopped as stopped:
            return stopped.flaw
        except expat.ExpatError as error:
            if not self._began:
                raise BadInput(f"not XML: {error}", reason=reason) from None
            return "bad_xml"
        return ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        prefix, _, name = name.lower().rpartition(":")
        if not self._names:
            self._handler.begin(name, prefix, attributes)
            self._began = True
        self._names.append(name)
        if len(self._names) > self._max_depth:
            raise ReadingStopped("too_deep")
        self._handler.start(name, prefix, attributes)

    def _end(self, _: str) -> None:
        self._handler.end(self._names[-1])
        self._names.pop()


def refuse_entities(*_: object) -> int:
    raise BadInput("the document declares entities or a document type of its own", reason="xml_entities")
