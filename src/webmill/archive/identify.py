"""Identify the media type of a payload by its first bytes, for `WARC-Identified-Payload-Type`.

Roughly as Common Crawl's Tika decides: signatures first, then markup, then the server's Content-Type unless the bytes
contradict it. At most `PREFIX` bytes are examined.
"""

from __future__ import annotations

import re

PREFIX = 4096
OCTETS, PLAIN = "application/octet-stream", "text/plain"
HTML, XHTML = "text/html", "application/xhtml+xml"

_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,90}", re.ASCII)

# The signature at the start, and the type. For containers the server may know more (see _CONTAINERS).
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/vnd.microsoft.icon"),
    (b"\x1f\x8b", "application/gzip"),
    (b"PK\3\4", "application/zip"),
    (b"PK\5\6", "application/zip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\7", "application/x-rar-compressed"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-tika-msoffice"),
    (b"{\\rtf", "application/rtf"),
    (b"%!PS", "application/postscript"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "application/ogg"),
    (b"fLaC", "audio/x-flac"),
    (b"FLV\1", "video/x-flv"),
    (b"\x1aE\xdf\xa3", "application/x-matroska"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"OTTO", "font/otf"),
    (b"\0\1\0\0\0", "font/ttf"),
    (b"FWS", "application/x-shockwave-flash"),
    (b"CWS", "application/x-shockwave-flash"),
    (b"\0asm", "application/wasm"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-msdownload"),
)
_ANY_SIGNATURE = tuple(signature for signature, _ in _SIGNATURES)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/vnd.wave", b"AVI ": "video/x-msvideo"}
_CONTAINERS = {"application/zip", "application/gzip", "application/x-tika-msoffice", "application/ogg"}
_WEAK = {
    "image/bmp",
    "application/x-msdownload",
    "audio/mpeg",
    "application/x-bzip2",
}  # signatures of two or three letters, which text may begin with

_SPACE = b"\t\n\f\r \0"
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# What precedes the first element: declarations, comments, processing instructions. Each step advances.
_PROLOG = re.compile(
    rb"(?:\s|<!--(?s:.{0,4096}?)-->|<\?[^>]{0,1024}>|<!doctype(?!\s+html\b)[^>]{0,1024}>)*+", re.IGNORECASE
)
_HTML_START = re.compile(
    rb"<!doctype\s+html\b|<(?:html|head|title|body|meta|link|script|style|base|iframe|frameset|h[1-6]|div|p|a|b|br|"
    rb"table|font|center|img|span|form|ul|ol|noscript|main|header|nav|section|article)[\s/>]",
    re.IGNORECASE,
)
_ROOT = re.compile(rb"<(?:[A-Za-z][\w.-]{0,30}:)?([A-Za-z][\w.-]{0,40})")
_ROOTS = {
    b"rss": "application/rss+xml",
    b"feed": "application/atom+xml",
    b"svg": "image/svg+xml",
    b"RDF": "application/rdf+xml",
}
_XML = ("application/xml", "text/xml")
_CONTROLS = bytes({*range(32)} - {*b"\t\n\f\r\x1b"})  # not in text, except for the escapes of ISO-2022
_TEXTUAL = re.compile(r"text/.*|.*[/+](?:json|xml|javascript|ecmascript|x-javascript|ld\+json|x-ndjson)")


def identify_media_type(payload: bytes, content_type: str | None) -> str:
    """Return the media type of `payload`, the decoded body, which the server called `content_type`."""
    declared = declared_media_type(content_type)
    start = payload[:PREFIX]
    if not start:
        return declared or OCTETS
    if found := _by_signature(start, declared):
        return found
    if _is_binary(start):
        return declared if declared and not _TEXTUAL.fullmatch(declared) else OCTETS
    return _markup(start, declared) or (declared if declared and declared != OCTETS else PLAIN)


def declared_media_type(content_type: str | None) -> str | None:
    """Return the media type of a Content-Type in lower case, without parameters; None if it is not one."""
    declared = (content_type or "")[:256].partition(";")[0].strip().lower()
    return declared if _TYPE.fullmatch(declared) else None


def _by_signature(start: bytes, declared: str | None) -> str | None:
    if start[:4] == b"RIFF" and (found := _RIFF.get(start[8:12])):
        return found
    if start[4:8] == b"ftyp":
        return declared if declared and declared.startswith(("video/", "audio/", "image/")) else "video/mp4"
    if not start.startswith(_ANY_SIGNATURE):
        return None
    for signature, kind in _SIGNATURES:
        if start.startswith(signature):
            if kind in _WEAK and not _is_binary(start):
                return None
            special = kind in _CONTAINERS and declared and declared != OCTETS and not _TEXTUAL.fullmatch(declared)
            return declared if special else kind
    return None


def _is_binary(start: bytes) -> bool:
    return not start.startswith(_BOMS) and len(start.translate(None, _CONTROLS)) < len(start)


def _markup(start: bytes, declared: str | None) -> str | None:
    """Return the type of HTML, or of XML by its root element; None for anything else.

    UTF-16 is read without its zeros.
    """
    if start.startswith(_BOMS[1:]):
        start = start.replace(b"\0", b"")
    for mark in _BOMS:
        start = start.removeprefix(mark)
    start = start.lstrip(_SPACE)
    is_xml = start.startswith(b"<?xml")
    prolog = _PROLOG.match(start)
    at = prolog.end() if prolog else 0
    if _HTML_START.match(start, at):
        # Served as XML it is XHTML; an XML declaration alone does not make it so, neither for Common Crawl.
        return XHTML if declared == XHTML or (is_xml and declared in _XML) else HTML
    root = _ROOT.match(start, at)
    if root and (is_xml or root[1] in _ROOTS):
        special = declared if declared and declared.endswith("+xml") and declared != XHTML else None
        return _ROOTS.get(root[1]) or special or "application/xml"
    return None
