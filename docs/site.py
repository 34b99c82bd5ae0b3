"""The documentation as a site: `make site` writes it to site/.

python docs/site.py [FOLDER]      in an environment that has zensical

The pages are read on a forge as they lie. For the site they are copied: links that lead out of docs/ go to the
repository, README.md becomes the index of its folder, and the navigation is what docs/README.md links to, in its order.
Then every link of every page is followed; one that leads nowhere, or a warning of the builder, is exit code 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REPOSITORY = "https://github.com/webmill/webmill"
LINK = re.compile(r"(\[[^\]]*\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(\))")
CODE = re.compile(r"(^```.*?^```$|^(?: {4}[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
RENAMED = {"reference/index.md": "reference/indexing.md"}  # the page of `webmill index`, not the folder's

Tree = list["str | dict[str, str | Tree]"]


def prepare(folder: Path) -> None:
    """All that the builder reads."""
    for page in sorted(DOCS.rglob("*.md")):
        target = folder / "docs" / name_of(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(for_site(page))
    for picture in (*DOCS.rglob("*.png"), *DOCS.rglob("*.svg"), *DOCS.rglob("*.webp")):
        target = folder / "docs" / picture.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    settings = (ROOT / "zensical.toml").read_text()
    navigation = f"nav = {as_toml(tree())}\n"
    (folder / "zensical.toml").write_text(settings.replace("[project]\n", f"[project]\n{navigation}", 1))


def name_of(page: Path) -> str:
    """Below docs/, on the site."""
    name = page.relative_to(DOCS).as_posix()
    return RENAMED.get(name) or re.sub(r"(^|/)README\.md$", r"\1index.md", name)


def for_site(page: Path) -> str:
    here = PurePosixPath(name_of(page)).parent

    def lead(link: re.Match[str]) -> str:
        before, target, anchor, after = link[1], link[2], link[3] or "", link[4]
        place = (page.parent / target).resolve()
        if not place.is_relative_to(DOCS) or place.suffix == ".py":
            kind = "tree" if place.is_dir() else "blob"
            return f"{before}{REPOSITORY}/{kind}/main/{place.relative_to(ROOT).as_posix()}{anchor}{after}"
        if place.is_dir():
            place = place / "README.md"
        name = name_of(place) if place.suffix == ".md" else place.relative_to(DOCS).as_posix()
        return f"{before}{os.path.relpath(name, here)}{anchor}{after}"

    pieces = CODE.split(page.read_text())
    return "".join(piece if at % 2 else LINK.sub(lead, piece) for at, piece in enumerate(pieces))


# --- navigation -------------------------------------------------------------------------------------------------------


def tree() -> Tree:
    """`## Section`, `### Group`, `- [page](…)` of docs/README.md; the index of a folder brings all of it along."""
    found: Tree = ["index.md", {"Tutorial": "tutorial.md"}]
    section = group = found
    for line in (DOCS / "README.md").read_text().splitlines():
        if line.startswith("## "):
            section = group = []
            found.append({line[3:]: section})
        elif line.startswith("### "):
            group = []
            section.append({line[4:]: group})
        elif line.startswith("- "):
            group.extend(pages_in(line))
    return found


def pages_in(line: str) -> Iterator[str]:
    for link in LINK.finditer(line):
        page = DOCS / link[2]
        if page.suffix == ".md":
            yield name_of(page)
        if page.name == "README.md":
            yield from (name_of(one) for one in sorted(page.parent.glob("*.md")) if one != page)


def as_toml(value: Tree | str | dict[str, str | Tree]) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {as_toml(one)}" for name, one in value.items()) + "}"
    return "[" + ", ".join(map(as_toml, value)) + "]"


# --- for language models (llmstxt.org) --------------------------------------------------------------------------------


def write_llms(pages: Path, target: Path) -> None:
    """Write llms.txt, the pages in their order with a sentence of each, and beside the site the pages that it names."""
    for page in pages.rglob("*.md"):
        place = target / page.relative_to(pages)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, place)
    lines = ["# webmill\n", f"> {summary()}\n"]
    for entry in tree():
        name, branch = next(iter(entry.items())) if isinstance(entry, dict) else ("Documentation", entry)
        lines.append(f"## {name}\n")
        lines += map(partial(described, pages), leaves(branch))
        lines.append("")
    (target / "llms.txt").write_text("\n".join(lines))


def summary() -> str:
    """What webmill is, as its README says."""
    found = re.search(r"\*\*Your own Common Crawl.*?(?=\n\n)", (ROOT / "README.md").read_text(), re.DOTALL)
    if not found:
        sys.exit("README.md does not say what webmill is")
    return found[0].replace("**", "").replace("\n", " ")


def leaves(branch: str | dict[str, str | Tree] | Tree) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(branch, str):
        return [branch]
    inner = branch.values() if isinstance(branch, dict) else branch
    return [leaf for each in inner for leaf in leaves(each)]


def described(pages: Path, page: str) -> str:
    """A link to a page, and its first sentence without links and marks."""
    text = CODE.sub("", (pages / page).read_text())
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    first = re.search(r"^(?![#<|>!*-])(\S.*?[.:])(?:\s|$)", text, re.MULTILINE)
    about = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", first[1]) if first else ""
    return f"- [{title[1] if title else page}]({page})" + (f": {about}" if about else "")


# --- checks -----------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if "src" in given or tag == "link":
            self.loads.append(given.get("src") or given.get("href", ""))
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])


def flaws(site: Path) -> Iterator[str]:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name == "404.html":  # its links are from the root of the server
            continue
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    yield f"{path.relative_to(site)} loads {link}"
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = place / "index.html" if place.is_dir() else place
            if not place.exists():
                yield f"{path.relative_to(site)}: {link} leads nowhere"
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].ids:
                yield f"{path.relative_to(site)}: {link} has no such heading"


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="webmill-site-") as aside:
        folder = Path(aside).resolve()
        prepare(folder)
        zensical = Path(sys.executable).parent / "zensical"
        command = [str(zensical), "build", "--strict", "--config-file", str(folder / "zensical.toml")]
        subprocess.run(command, cwd=folder, check=True)
        wrong = list(flaws(folder / "site"))
        if wrong:
            sys.exit("\n".join(wrong))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "site", target)
        write_llms(folder / "docs", target)
    sys.stdout.write(f"the site is in {target}: {sum(1 for _ in target.rglob('*.html'))} pages\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
    except subprocess.CalledProcessError as error:
        sys.exit(f"zensical ended with {error.returncode}")
