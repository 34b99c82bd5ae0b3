"""Feeds: whatever they are called and however they are broken, what they say; and never more than they say."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.site.feed import MAX_ENTRIES, Feed, FeedEntry, read_feed

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:media="m" xmlns:atom="a"><channel>
<title>News &amp; more</title><link>http://a.example/</link><atom:link rel="self" href="http://a.example/feed"/>
<description>All of it</description><language>en-us</language>
<image><title>A logo</title></image>
<item><title>One</title><link>http://a.example/1</link><description>short</description>
<content:encoded><![CDATA[<p>Long <b>text</b><p>and more]]></content:encoded><media:title>a picture</media:title></item>
<item><title>AT&amp;amp;T</title><guid>2</guid></item><item/></channel></rss>"""
RDF = """<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/"><channel><title>Old</title></channel>
<item><title>One</title><link>1</link></item></rdf:RDF>"""
ATOM = """<a:feed xmlns:a="http://www.w3.org/2005/Atom" xml:lang="de"><a:title>T</a:title><a:subtitle>S</a:subtitle>
<a:link rel="self" href="s"/><a:link href="/"/><a:entry><a:title type="html">A &amp;lt; B</a:title>
<a:link rel="alternate" href="1"/><a:author><a:name>N</a:name></a:author><a:summary>x &lt;i> y</a:summary></a:entry>
<a:entry><a:content type="xhtml"><div><p>One</p><p>&lt;Two></p></div></a:content></a:entry></a:feed>"""
JSON = """{"version": "https://jsonfeed.org/version/1.1", "title": "J", "home_page_url": "/", "language": "fr",
"items": [{"id": 1, "url": "a", "title": "1 < 2", "content_text": "3 < 4"}, {"external_url": "b",
"content_html": "<p>c<p>d"}]}"""


def test_rss() -> None:
    assert read_feed(RSS) == Feed(
        title="News & more",
        about="All of it",
        url="http://a.example/",
        language="en-us",
        entries=(FeedEntry("One", "http://a.example/1", "Long text\nand more"), FeedEntry("AT&T")),
    )
    assert read_feed(RSS).text == "News & more\nAll of it\nOne\nLong text\nand more\nAT&T\n"


def test_rss_of_the_first_kind() -> None:
    assert read_feed(RDF) == Feed(title="Old", entries=(FeedEntry("One", "1"),))


def test_atom_says_what_is_markup_and_what_is_not() -> None:
    entries = (FeedEntry("A < B", "1", "x <i> y"), FeedEntry("", "", "One\n<Two>"))
    assert read_feed(ATOM) == Feed(title="T", about="S", url="/", language="de", entries=entries)


@pytest.mark.parametrize(
    ("item", "url"),
    [
        ("<guid>http://a.example/1</guid>", "http://a.example/1"),
        ("<guid isPermaLink='true'>https://a.example/1</guid>", "https://a.example/1"),
        ("<guid isPermaLink='false'>http://a.example/1</guid>", ""),
        ("<guid>http://a.example/1</guid><link>http://a.example/2</link>", "http://a.example/2"),
        ("<guid>tag:a.example,2024:1</guid>", ""),
    ],
)
def test_a_guid_is_the_url_of_an_item_unless_it_says_otherwise(item: str, url: str) -> None:
    (entry,) = read_feed(f"<rss><channel><item><title>One</title>{item}</item></channel></rss>").entries
    assert entry.url == url


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<content type='image/png'>iVBORw0KGgo=</content>", ""),
        ("<content type='application/json'>eyJhIjogMX0=</content>", '{"a": 1}'),
        ("<content type='text/html' mode='base64'>PHA+aGVsbG88L3A+</content>", "hello"),  # Atom 0.3
        ("<content type='application/pdf'>what is this</content><summary>short</summary>", "short"),
        ("<content type='text/markdown'>PHA+</content>", "PHA+"),
        ("<content type='text/html; charset=utf-8'>&lt;p>hello</content>", "hello"),
        ("<content type='application/mathml+xml'><math><mi>x</mi></math></content>", "x"),
    ],
)
def test_content_of_other_types_is_base64_in_atom(content: str, text: str) -> None:
    (entry,) = read_feed(f"<feed><entry><title>One</title>{content}</entry></feed>").entries
    assert entry.text == text


def test_json_feed() -> None:
    entries = (FeedEntry("1 < 2", "a", "3 < 4"), FeedEntry("", "b", "c\nd"))
    assert read_feed(JSON) == Feed(title="J", url="/", language="fr", entries=entries)


def test_what_feeds_get_wrong_is_forgiven() -> None:
    """Blanks before it, a document type elsewhere, entities of HTML, control characters, tags that are not escaped."""
    feed = read_feed(
        '\n <!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://my.netscape.com/rss-0.91.dtd"><rss><channel>'
        "<title>A&nbsp;B &eacute; \x0b&bogus;</title><item><description>x<p>y</p></description></item></channel></rss>"
    )
    assert (feed.title, feed.entries, feed.flaw) == ("A B é &bogus;", (FeedEntry("", "", "x\ny"),), "")


@pytest.mark.parametrize(
    "text",
    [
        *("", "words", "<html><title>t</title></html>", "<urlset/>", "<", "<rss", "{}", "[" * 100_000),
        *('{"version": "https://jsonfeed.org/version/1", "items": {}}', '{"items":' + '[{"a":' * 100_000),
    ],
    ids=range(10),
)
def test_what_is_no_feed_is_told(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_feed(text)
    assert caught.value.reason == "not_feed"


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE rss [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>',
        '<!DOCTYPE rss [<!ENTITY b SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE rss [<!ENTITY % p SYSTEM "http://a.example/x.dtd"> %p;]>',
        '<!DOCTYPE rss SYSTEM "http://a.example/x.dtd" [<!ATTLIST rss x CDATA "y">]>',
    ],
    ids=["laughs", "file", "parameter", "default"],
)
def test_declarations_are_refused(declared: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_feed(f"{declared}<rss><channel><title>&b;</title></channel></rss>")
    assert caught.value.reason == "xml_entities"


def test_an_entry_in_an_entry_is_not_told_twice() -> None:
    feed = read_feed("<feed><entry><entry><title>in</title></entry></entry><entry><title>next</title></entry></feed>")
    assert [entry.title for entry in feed.entries] == ["in", "next"]


def test_limits() -> None:
    many = read_feed("<rss>" + "<item><title>x</title></item>" * (MAX_ENTRIES + 1) + "</rss>")
    assert (len(many.entries), many.flaw) == (MAX_ENTRIES, "too_many_entries")
    deep = read_feed("<rss><channel><title>t</title>" + "<a>" * 100)
    assert (deep.title, deep.flaw) == ("t", "too_deep")
    with pytest.raises(BadInput) as caught:
        read_feed("<rss>" + " " * (8 << 20))
    assert caught.value.reason == "parse_limit"


@pytest.mark.parametrize("whole", [RSS, RDF, ATOM, JSON], ids=["rss", "rdf", "atom", "json"])
def test_cut_anywhere_it_says_less_or_is_refused(whole: str) -> None:
    entries = read_feed(whole).entries
    for end in range(len(whole) - 1):
        try:
            cut = read_feed(whole[:end])
        except BadInput:
            continue
        assert cut.entries == entries[: len(cut.entries)]
        assert cut.flaw == "bad_xml"


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cn", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=20
)


@settings(deadline=None, max_examples=50)
@given(st.lists(WORDS, max_size=5))
def test_titles_of_atom_are_as_another_parser_reads_them(titles: list[str]) -> None:
    root = ElementTree.Element("feed")
    for title in titles:
        ElementTree.SubElement(ElementTree.SubElement(root, "entry"), "title").text = title
    text = ElementTree.tostring(root, encoding="unicode")
    assert [entry.title for entry in read_feed(text).entries] == titles
