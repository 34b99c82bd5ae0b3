"""Encodings: declared in the header, in the page, wrongly, or not at all (H03)."""

from __future__ import annotations

from webmill.testing.exchange import Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures
from webmill.testing.languages import CHINESE, GERMAN, JAPANESE, KOREAN, RUSSIAN, LanguageSample

HOST = "letters.grain.example"


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    for name, codec, language in (
        ("utf-8", "utf-8", GERMAN),
        ("windows-1252", "cp1252", GERMAN),
        ("shift_jis", "cp932", JAPANESE),
        ("euc-jp", "euc-jp", JAPANESE),
        ("euc-kr", "euc-kr", KOREAN),
        ("gb18030", "gb18030", CHINESE),
        ("koi8-r", "koi8-r", RUSSIAN),
    ):
        table.put(f"/{name}-header", f"{name}, declared in the header", _page(language, codec, header=name))
        table.put(f"/{name}-meta", f"{name}, declared by a meta tag", _page(language, codec, meta=_meta(name)))
    table.put(
        "/http-equiv", "shift_jis, declared by meta http-equiv", _page(JAPANESE, "cp932", meta=_http_equiv("shift_jis"))
    )
    table.put("/utf-16-bom", "UTF-16, little-endian, with BOM", _page(GERMAN, "utf-16-le", bom=b"\xff\xfe"))
    table.put("/utf-16be-bom", "UTF-16, big-endian, with BOM", _page(GERMAN, "utf-16-be", bom=b"\xfe\xff"))
    table.put(
        "/utf-8-bom", "UTF-8 with BOM; the header says windows-1252", _page(GERMAN, "utf-8", "windows-1252", bom=_BOM)
    )
    table.put("/none-utf-8", "UTF-8, declared nowhere", _page(KOREAN, "utf-8"))
    table.put("/none-windows-1252", "windows-1252, declared nowhere", _page(GERMAN, "cp1252"))
    table.put("/none-euc-kr", "euc-kr, declared nowhere", _page(KOREAN, "euc-kr"))
    table.put(
        "/wrong-header", "UTF-8; the header says iso-8859-1", _page(GERMAN, "utf-8", "iso-8859-1", meta=_meta("utf-8"))
    )
    table.put("/wrong-meta", "windows-1252; the meta tag says utf-8", _page(GERMAN, "cp1252", meta=_meta("utf-8")))
    table.put(
        "/two-metas",
        "UTF-8; two meta tags, the second wrong",
        _page(GERMAN, "utf-8", meta=_meta("utf-8") + _meta("big5")),
    )
    table.put("/late-meta", "euc-kr; the meta tag comes after 4,000 bytes", _page(KOREAN, "euc-kr", meta=_LATE))
    table.put("/utf-7", "UTF-7, declared in the header: must not be decoded so", _page(GERMAN, "utf-7", "utf-7"))
    table.put("/nul-label", "the charset label holds a NUL", _page(GERMAN, "utf-8", "utf-8\x00"))
    table.put("/broken-utf-8", "UTF-8 with surrogates, cut sequences and NUL", HttpReply(body=_BROKEN))
    table.add("/label/*", "UTF-8; the header says what the path says", _page_with_label, start="/label/unicode_escape")
    return table.features


_BOM = b"\xef\xbb\xbf"
_LATE = f"<!-- {'z' * 4000} --><meta charset=euc-kr>"
_BROKEN = b"<!doctype html><title>Broken \xed\xa0\x80 letters</title><p>cut \xe2\x82 NUL \x00 overlong \xc0\xaf end"


def _page(language: LanguageSample, codec: str, header: str = "", *, meta: str = "", bom: bytes = b"") -> HttpReply:
    text = f"<!doctype html>\n<html lang={language.code}><head>{meta}<title>{language.titles[0]}</title></head>\n"
    text += "".join(f"<p>{each.replace('{n}', '7')}</p>\n" for each in language.sentences) + "</html>\n"
    media_type = f"text/html; charset={header}" if header else "text/html"
    return HttpReply(body=bom + text.encode(codec), media_type=media_type)


def _meta(name: str) -> str:
    return f"<meta charset={name}>"


def _http_equiv(name: str) -> str:
    return f'<meta http-equiv="Content-Type" content="text/html; charset={name}">'


def _page_with_label(request: ReceivedRequest) -> Answer:
    return _page(GERMAN, "utf-8", request.path.removeprefix("/label/")[:100])
