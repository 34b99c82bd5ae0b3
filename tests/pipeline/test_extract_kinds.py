"""What becomes a document of a collection's own archives, by its kind."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.crawling import ALLOW, Setup, crawl_here
from tests.serve.sample_collection import PIXEL, Visit, archive, page
from tests.unit.cli.command import webmill
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb
from webmill.testing.assets import pdf

RSS = """<?xml version="1.0" encoding="iso-8859-1"?>
<rss version="2.0"><channel><title>The mill&nbsp;news</title><link>https://a.example/</link>
<description>All that is ground in our village, caf\xe9 included</description>
<item><title>Flour is cheap</title><link>/flour</link><description>&lt;p&gt;It costs &lt;b&gt;less&lt;/b&gt; than
last year.&lt;/p&gt;&lt;p&gt;Nobody knows why.</description></item>
<item><title>The wheel turns</title><link>https://b.example/wheel</link></item></channel></rss>""".encode("latin-1")
ATOM = (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><title>Atoms</title><entry><title>One</title><link href="1"/>'
    b'<content type="xhtml"><div><p>Split</p><p>here</p></div></content></entry></feed>'
)
JSON_FEED = b'{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"url":"/j","content_html":"<p>jay"}]}'
LAUGHS = b'<!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><rss><channel><title>&b;</title></channel></rss>'
XHTML = (
    '<?xml version="1.0" encoding="iso-8859-1"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head>'
    '<title>Strict</title><script src="x.js"/></head><body><p>D\xe9j\xe0 vu<br/>again</p>'
    '<a href="y">y</a></body></html>'
).encode("latin-1")
GERMAN = "Die Mühle mahlt das Korn,\r\n\r\n   und der\tMüller schläft.  \r\nDas Wasser treibt das Rad.\n"
MARKDOWN = b"Some words first\n\n# The title #\n\n* one\n* two\n"
URL = "https://a.example/"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be started; how workers are killed is tested elsewhere."""
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")


def visit(path: str, body: bytes, mime: str) -> Visit:
    return Visit(f"{URL}{path}", "20240101000000", body, mime=mime)


def extracted(root: Path, *visits: Visit, flags: tuple[str, ...] = (), code: int = 0) -> dict[str, Any]:
    """The report."""
    archive(root, list(visits))
    ended = webmill("extract", root, "--json", "--extractor", "plain", *flags)
    assert ended.code == code, ended.err
    return json.loads(ended.out)  # type: ignore[no-any-return]


def documents(root: Path) -> dict[str, dict[str, Any]]:
    """By what follows the host."""
    lines = [
        line for file in (root / "documents").glob("*.gz") for line in gzip.decompress(file.read_bytes()).split(b"\n")
    ]
    found = [json.loads(line) for line in lines if line]
    return {one["url"].split("/", 3)[3]: one for one in found}


OTHERS = (
    visit("a.png", PIXEL, "image/png"),
    visit("b.png", PIXEL, "image/png"),
    visit("c.css", b"h1{color:teal}", "text/css"),
    visit("d.js", b"document.title='ran'", "application/x-javascript"),
    visit("e.woff2", b"wOF2\0\1", "font/woff2"),
    visit("f.json", b'{"a": 1}', "application/json"),
    visit("g.xml", b"<urlset><url><loc>https://a.example/</loc></url></urlset>", "text/xml"),
    visit("h.bin", b"\0\1\2", "application/octet-stream"),
    visit("i.svg", b"<svg><title>s</title></svg>", "image/svg+xml"),
    visit("j.zip", b"PK\3\4", "application/zip"),
    visit("k", b"", "text/plain"),
    visit("robots.txt", b"User-agent: *\nAllow: /\n", "text/plain"),
)
ABOUT = visit("about/robots.txt", b"A page of this name that is none", "text/plain")
KINDS = {
    "image": 3,
    "css": 1,
    "script": 1,
    "font": 1,
    "json": 1,
    "xml": 1,
    "binary": 1,
    "other": 1,
    "robots": 1,
}


def test_what_has_no_text_by_its_kind_is_counted_and_no_document(tmp_path: Path) -> None:
    report = extracted(tmp_path, visit("page", page("A page", "Words"), "text/html"), *OTHERS, ABOUT)
    assert (report["captures"], report["documents"], report["errors"]) == (14, 3, 0)
    assert report["left_out"] == KINDS
    assert report["outcomes"] == {"ok": 2, "empty": 1}
    assert {name: one["outcome"] for name, one in documents(tmp_path).items()} == {
        "page": "ok", "about/robots.txt": "ok", "k": "empty",
    }  # fmt: skip


def test_the_kinds_that_are_left_out_are_told(tmp_path: Path) -> None:
    archive(tmp_path, [visit("page", page("A page", "Words"), "text/html"), *OTHERS[:3]])
    ended = webmill("extract", tmp_path)
    assert "1 task: 1 document of 4 captures, 1 ok; left out: 1 css, 2 image\n" in ended.err


def test_a_record_of_every_capture_can_be_had(tmp_path: Path) -> None:
    report = extracted(
        tmp_path, visit("page", page("A page", "Words"), "text/html"), *OTHERS, flags=("--all-captures",)
    )
    assert (report["documents"], report["left_out"]) == (13, {})
    found = documents(tmp_path)
    assert (found["a.png"]["text"], found["a.png"]["outcome"]) == (None, "other_type")
    assert found["a.png"]["mime"] == "image/png"
    assert found["robots.txt"]["outcome"] == "robots"
    assert "Words" in found["page"]["text"]


def test_plain_text_is_its_own_text_without_its_white_space(tmp_path: Path) -> None:
    extracted(
        tmp_path,
        visit("utf8", GERMAN.encode(), "text/plain"),
        visit("latin", GERMAN.encode("latin-1"), "text/plain"),
        visit("speaks", b"The tag <meta charset=utf-16> is for pages: \xc3\xa4", "text/plain"),
    )
    found = documents(tmp_path)
    wanted = "Die Mühle mahlt das Korn,\nund der Müller schläft.\nDas Wasser treibt das Rad.\n"
    assert {found[name]["text"] for name in ("utf8", "latin")} == {wanted}
    assert found["speaks"]["text"].endswith(": ä\n")
    assert [found[name]["charset"] for name in ("utf8", "latin", "speaks")] == ["UTF-8", "windows-1252", "UTF-8"]
    assert {(one["extractor"], one["title"]) for one in found.values()} == {("text", None)}
    assert found["utf8"]["mime"] == "text/plain"


def test_the_title_of_markdown_is_its_first_heading(tmp_path: Path) -> None:
    extracted(tmp_path, visit("readme.md", MARKDOWN, "text/markdown; charset=utf-8"))
    (found,) = documents(tmp_path).values()
    assert (found["title"], found["text"]) == ("The title", "Some words first\n# The title #\n* one\n* two\n")


def test_a_feed_is_a_document_of_its_entries_whatever_it_is_called(tmp_path: Path) -> None:
    names = ("application/rss+xml", "text/xml", "application/xml; charset=iso-8859-1")
    extracted(tmp_path, *(visit(f"feed{number}", RSS, mime) for number, mime in enumerate(names)), flags=("--links",))
    assert len(documents(tmp_path)) == 3
    for found in documents(tmp_path).values():
        assert (found["title"], found["extractor"], found["charset"]) == ("The mill news", "feed", "windows-1252")
        assert found["description"] == "All that is ground in our village, café included"
        assert found["text"].splitlines() == [
            *("The mill news", "All that is ground in our village, café included", "Flour is cheap"),
            *("It costs less than last year.", "Nobody knows why.", "The wheel turns"),
        ]
        links = [(link["url"], link["text"]) for link in found["links"]]
        assert links == [("https://a.example/flour", "Flour is cheap"), ("https://b.example/wheel", "The wheel turns")]


def test_atom_and_json_feeds_are_read_too(tmp_path: Path) -> None:
    extracted(
        tmp_path,
        visit("atom", ATOM, "application/atom+xml"),
        visit("json", JSON_FEED, "application/json"),
        visit("feed+json", JSON_FEED, "application/feed+json"),
    )
    texts = {name: one["text"] for name, one in documents(tmp_path).items()}
    assert texts == {"atom": "Atoms\nOne\nSplit\nhere\n", "json": "J\njay\n", "feed+json": "J\njay\n"}


def test_a_feed_that_declares_entities_is_not_read(tmp_path: Path) -> None:
    report = extracted(tmp_path, visit("laughs", LAUGHS, "application/rss+xml"), code=3)
    assert report["outcomes"] == {"parse_error": 1}
    (found,) = documents(tmp_path).values()
    assert found["text"] is None
    assert found["error"].startswith("xml_entities: ")


def test_a_feed_that_breaks_off_gives_what_came_before(tmp_path: Path) -> None:
    extracted(tmp_path, visit("cut", RSS[: RSS.index(b"wheel turns")], "application/rss+xml"))
    (found,) = documents(tmp_path).values()
    assert found["text"].endswith("Nobody knows why.\n")


def test_xhtml_is_a_page(tmp_path: Path) -> None:
    extracted(tmp_path, visit("strict", XHTML, "application/xhtml+xml"), flags=("--links",))
    (found,) = documents(tmp_path).values()
    assert (found["title"], found["extractor"]) == ("Strict", "plain")
    assert "Déjà vu\nagain" in found["text"]
    assert [link["url"] for link in found["links"]] == [f"{URL}y"]


def test_the_language_of_what_is_no_page_is_detected(tmp_path: Path) -> None:
    pytest.importorskip("pycld2")
    words = "Der Müller mahlt das Korn, und am Abend geht er mit seiner Frau nach Hause in das kleine Dorf. "
    feed = b"<rss><channel><title>Mill</title><item><description>%b</description></item></channel></rss>"
    extracted(
        tmp_path,
        visit("text", (words * 5).encode(), "text/plain"),
        visit("feed", feed % (words * 5).encode(), "application/rss+xml"),
    )
    assert {one["language"] for one in documents(tmp_path).values()} == {"deu"}


# --- PDF ---


def test_the_text_of_a_pdf_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    report = extracted(
        tmp_path,
        visit("report.pdf", pdf("The mill ground 40 tons"), "application/pdf"),
        visit("broken.pdf", b"%PDF-1.4\nnothing else", "application/pdf"),
        visit("looped.pdf", pdf("x").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]"), "application/pdf"),
        code=3,
    )
    assert (report["outcomes"], report["left_out"]) == ({"ok": 1, "parse_error": 2}, {})
    found = documents(tmp_path)
    assert (found["report.pdf"]["text"], found["report.pdf"]["extractor"]) == ("The mill ground 40 tons\n", "pdf")
    assert all(found[name]["text"] is None and found[name]["error"] for name in ("broken.pdf", "looped.pdf"))


def test_without_a_reader_pdf_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were not installed; it is read in a child."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text("import sys\nsys.modules['pypdf'] = None\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "hidden"), *sys.path]))
    archive(tmp_path, [visit("a.pdf", pdf("Words"), "application/pdf"), visit("b.png", PIXEL, "image/png")])
    ended = webmill("extract", tmp_path)
    assert ended.code == 0
    reported = "0 documents of 2 captures; left out: 1 image, 1 pdf\n"
    assert f"{reported}1 PDF file not read: pip install 'webmill[pdf]'\n" in ended.err


# --- pages that are the same ---

# It leads to its copy, so that it is archived when that is asked for.
STORY = b"<title>The story</title><a href=/copy></a>" + b"<p>The ferry leaves at noon, and who is late swims." * 10


class Village:
    """`/copy` has the bytes of `/story`; `/about.txt` is text."""

    def __init__(self) -> None:
        self.story = STORY

    def answer(self, request: ReceivedRequest) -> Answer:
        match request.path:
            case "/robots.txt":
                return HttpReply(body=ALLOW, media_type="text/plain")
            case "/":
                links = b"".join(b'<a href="/%b">x</a>' % name for name in (b"story", b"about.txt", b"feed"))
                return HttpReply(body=b"<title>Home</title>Welcome" + links)
            case "/story" | "/copy":
                return HttpReply(body=self.story)
            case "/about.txt":
                return HttpReply(body=b"About the village", media_type="text/plain")
            case _:
                return HttpReply(body=RSS, media_type="application/rss+xml")

    def pages(self, version: int) -> Any:
        return iter(tuple[ExpectedPage, ...]())


def crawl(root: Path, site: Village, *, segment: str) -> None:
    with TestWeb(hosts=0, sites={"www.village.test": site}) as web:
        setup = Setup(seeds=("http://www.village.test/",), resolve=dict(web.resolve), segment=segment)
        crawl_here(root, setup)


def test_a_page_with_the_bytes_of_another_points_to_it_and_is_found_by_its_own_address(tmp_path: Path) -> None:
    crawl(tmp_path, Village(), segment="20240101000000")
    ended = webmill("extract", tmp_path)
    assert ended.code == 0, ended.err
    found = documents(tmp_path)
    assert found.keys() == {"", "story", "copy", "about.txt", "feed"}
    first, second = found["story"], found["copy"]
    assert (first["type"], second["type"]) == ("response", "revisit")
    assert "The ferry leaves" in first["text"]
    assert second["text"] is None
    assert (second["refers_to"], second["digest"]) == (first["url"], first["digest"])
    assert found["about.txt"]["text"] == "About the village\n"

    assert webmill("publish", "documents", tmp_path).code == 0
    assert webmill("search", "update", tmp_path).code == 0
    hits = json.loads(webmill("search", tmp_path, "ferry", "--json").out)["hits"]
    assert {hit["url"] for hit in hits} == {first["url"], second["url"]}
