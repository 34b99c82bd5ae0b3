"""`/llms.txt`, a site's index for language models, in Markdown.

`# Name`, `> summary`, `## Section`, `- [title](url): note`.
"""

from __future__ import annotations

import re

import msgspec

PATH = "/llms.txt"
MAX_FILE = 1 << 20  # bytes
MAX_LINKS = 5000
_LINK = re.compile(r"[-*+][ \t]+\[([^\[\]]{0,500})\]\(([^()\s]{1,2000})\)(?:[ \t]*:[ \t]*(.{0,1000}))?")


class LlmsLink(msgspec.Struct, frozen=True):
    section: str
    title: str
    url: str  # as written
    note: str = ""


class LlmsTxt(msgspec.Struct, frozen=True):
    name: str = ""
    summary: str = ""
    links: tuple[LlmsLink, ...] = ()

    @property
    def is_one(self) -> bool:
        """Tell whether it has what the proposal asks for: a name. Servers answer with a page of their own, too."""
        return bool(self.name)


def read_llms_txt(body: bytes) -> LlmsTxt:
    """Return what an llms.txt names; of a page in HTML nothing."""
    text = body[:MAX_FILE].decode("utf-8", "replace").removeprefix("\ufeff")
    if text.lstrip()[:1] == "<":
        return LlmsTxt()
    name = summary = section = ""
    links: list[LlmsLink] = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("# ") and not name:
            name = line[2:].strip()[:300]
        elif line.startswith(">") and not summary:
            summary = line[1:].strip()[:2000]
        elif line.startswith("## "):
            section = line[3:].strip()[:300]
        elif len(links) < MAX_LINKS and (found := _LINK.match(line)):
            links.append(LlmsLink(section, found[1], found[2], (found[3] or "").strip()))
    return LlmsTxt(name, summary, tuple(links))
