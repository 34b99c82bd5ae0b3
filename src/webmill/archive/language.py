"""The languages of a page by CLD2, as Common Crawl asks it: on the HTML itself, with the hints that a capture gives.

CLD2 is C++ and reads hostile bytes, so it runs in a sandbox. The package is optional (`webmill[languages]`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.parse import urlsplit

from webmill.archive.capture import Capture
from webmill.archive.derive_wet import Detect
from webmill.errors import BadInput, Misconfigured
from webmill.infra.sandbox import Sandbox

LEAST_BYTES = 10
LEAST_PERCENT = 2
MOST_BYTES = 1 << 20  # of a page; what follows does not change its languages
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # it refuses them
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
_ISO_639_3: dict[str, str] = dict(pair.split(":") for pair in _CODES.split())


@contextmanager
def detecting() -> Iterator[Detect]:
    """A detector of the languages of captured pages; one that cannot tell, or breaks, gives none."""
    if find_spec("pycld2") is None:
        raise Misconfigured(
            "languages are detected by pycld2, which is not installed: pip install 'webmill[languages]'"
        )
    with Sandbox("webmill.archive.language:detect_languages", returns=tuple[str, ...]) as sandbox:

        def detect(capture: Capture) -> tuple[str, ...]:
            assert capture.response  # a page has one
            page = capture.response.text.text.encode("utf-8", "replace")[:MOST_BYTES]
            said = capture.response.fields.get("Content-Language") or ""
            try:
                return sandbox.call(page, suffix=suffix_of(capture.record.target_uri or ""), said=said)
            except BadInput:
                return ()

        yield detect


def detect_languages(page: bytes, *, suffix: str = "", said: str = "") -> tuple[str, ...]:
    """ISO-639-3 codes of UTF-8 HTML, the one with the most text first, three at most."""
    import pycld2

    options = {"isPlainText": False, "hintTopLevelDomain": suffix or None, "hintLanguageHTTPHeaders": said or None}
    page = _CONTROLS.sub(b"", page.decode("utf-8", "ignore").encode())
    try:
        _, size, found = pycld2.detect(page, **{name: value for name, value in options.items() if value is not None})
    except (pycld2.error, ValueError):
        return ()
    enough = [code for _, code, percent, _ in found if percent >= LEAST_PERCENT and size * percent >= LEAST_BYTES * 100]
    return tuple(dict.fromkeys(_ISO_639_3[code] for code in enough if code in _ISO_639_3))


def suffix_of(uri: str) -> str:
    """`de` of http://www.example.de/; nothing of an address."""
    try:
        suffix = (urlsplit(uri).hostname or "").rpartition(".")[2]
    except ValueError:
        return ""
    return suffix if _SUFFIX.fullmatch(suffix) else ""
