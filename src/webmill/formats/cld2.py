"""Detect the languages of a page or a text by CLD2, as Common Crawl does: on the HTML itself, with hints.

CLD2 is C++ and reads hostile bytes: call it in a sandbox. The package is optional
(`webmill[languages]`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from webmill.formats.languages import DetectedLanguage, DetectedLanguages

PACKAGE = "pycld2"
MAX_BYTES = 1 << 20  # of a page; more hardly changes the result
MAX_HINT = 256  # characters of a Content-Language
MIN_BYTES = 10
MIN_PERCENT = 2
_CONTROLS = bytes({*range(32), 0x7F} - {*b"\t\n\r"})  # CLD2 refuses them
_SUFFIX = re.compile(r"[a-z]{2,18}")

# CLD2's codes (mostly ISO-639-1, some of them withdrawn) to ISO-639-3.
_CODES = (
    "aa:aar ab:abk af:afr ak:aka am:amh ar:ara as:asm ay:aym az:aze ba:bak be:bel bg:bul bh:bih bi:bis bn:ben "
    "bo:bod br:bre bs:bos ca:cat ceb:ceb chr:chr co:cos crs:crs cs:ces cy:cym da:dan de:deu dv:div dz:dzo el:ell "
    "en:eng eo:epo es:spa et:est eu:eus fa:fas fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn "
    "gu:guj gv:glv ha:hau haw:haw hi:hin hmn:hmn hr:hrv ht:hat hu:hun hy:hye ia:ina id:ind ie:ile ig:ibo ik:ipk "
    "is:isl it:ita iu:iku iw:heb ja:jpn jw:jav ka:kat kha:kha kk:kaz kl:kal km:khm kn:kan ko:kor ks:kas ku:kur "
    "ky:kir la:lat lb:ltz lg:lug lif:lif ln:lin lo:lao lt:lit lv:lav mfe:mfe mg:mlg mi:mri mk:mkd ml:mal mn:mon "
    "mr:mar ms:msa mt:mlt my:mya na:nau ne:nep nl:nld nn:nno no:nor nr:nbl nso:nso ny:nya oc:oci om:orm or:ori "
    "pa:pan pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sco:sco sd:snd sg:sag si:sin "
    "sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa syr:syr ta:tam te:tel "
    "tg:tgk th:tha ti:tir tk:tuk tl:tgl tlh:tlh tn:tsn to:ton tr:tur ts:tso tt:tat ug:uig uk:ukr ur:urd uz:uzb "
    "ve:ven vi:vie vo:vol war:war wo:wol xh:xho xx-Bugi:bug xx-Goth:got yi:yid yo:yor za:zha zh:zho zh-Hant:zho "
    "zu:zul"
)
ISO_639_3: dict[str, str] = dict(pair.split(":") for pair in _CODES.split())


def can_detect_languages() -> bool:
    """Return whether CLD2 is installed."""
    return find_spec(PACKAGE) is not None


class DetectorInput(NamedTuple):
    """A page, or a text, and the hints that come with it."""

    page: bytes  # in UTF-8; invalid bytes are read as U+FFFD
    tld: str = ""
    content_language: str = ""


def detect_languages_of_all(samples: Sequence[DetectorInput]) -> list[DetectedLanguages]:
    """Return the languages of each page, as `detect_languages` does."""
    return [detect_languages(page, tld=tld, content_language=hint) for page, tld, hint in samples]


def detect_languages(page: bytes, *, tld: str = "", content_language: str = "") -> DetectedLanguages:
    """Return the languages of UTF-8 text or HTML: three at most, without those that hardly occur.

    `tld` is the top-level domain of the host (`de`), `content_language` the value of Content-Language.
    """
    reliable, size, found = _run_cld2(page[:MAX_BYTES], tld=tld, content_language=content_language)
    kept = [one for one in found if one[2] >= MIN_PERCENT and size * one[2] >= MIN_BYTES * 100]
    languages = tuple(
        DetectedLanguage(code=code, iso=ISO_639_3[code], covered=percent / 100, score=float(score), name=name)
        for name, code, percent, score in kept
        if code in ISO_639_3
    )
    return DetectedLanguages(reliable=reliable, text_bytes=size, languages=languages)


def _run_cld2(page: bytes, *, tld: str, content_language: str) -> tuple[bool, int, list[Any]]:
    """Return whether the result is reliable, the bytes of text, and (name, code, percent, score) of each language."""
    import pycld2

    hints = {"hintTopLevelDomain": tld, "hintLanguageHTTPHeaders": content_language}
    options = {name: value for name, value in hints.items() if value}
    try:
        try:
            reliable, size, found = pycld2.detect(page, **options)
        except pycld2.error:  # clean only then: nearly all pages need it not
            reliable, size, found = pycld2.detect(_clean(page), **options)
    except (pycld2.error, ValueError):
        return False, 0, []
    return bool(reliable), size, list(found)


def _clean(page: bytes) -> bytes:
    return page.decode("utf-8", "replace").encode().translate(None, _CONTROLS)


def top_level_domain(uri: str) -> str:
    """Return the top-level domain of a URL, `de` for http://www.example.de/; empty for an IP address."""
    try:
        suffix = (urlsplit(uri).hostname or "").rpartition(".")[2]
    except ValueError:
        return ""
    return suffix if _SUFFIX.fullmatch(suffix) else ""
