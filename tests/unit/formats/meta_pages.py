"""Pages that declare an encoding, or seem to, and the encoding that the standard and browsers find."""

from __future__ import annotations

_FILL = b"<!-- " + b"x" * 1100 + b" -->"
_BODY = b"<p>na\xefve caf\xe9, a page of words in English"  # which Chromium guesses where nothing is declared
_META = b"<meta charset=koi8-r>"
_HEAD = b"<!doctype html><html><head>"
FOUND, NOT_FOUND = "koi8-r", "windows-1252"

PAGES = {
    _META + _BODY: FOUND,
    b"<meta charset=unknown>" + _META + _BODY: FOUND,
    b"<meta charset=''><meta charset>" + _META + _BODY: FOUND,
    b"<meta/charset=koi8-r>" + _BODY: FOUND,
    b"<meta charset=koi8-r/>" + _BODY: NOT_FOUND,  # an unquoted value goes on to the white space
    b"<meta charset=koi8-r />" + _BODY: FOUND,
    b"<meta content='text/html; charset=koi8-r'>" + _BODY: NOT_FOUND,
    b"<meta http-equiv=content-type content='charset iso-8859-5; charset = koi8-r'>" + _BODY: FOUND,
    b"<meta http-equiv=content-type content='text/html; charset=\"koi8-r'>" + _BODY: NOT_FOUND,
    _BODY + b"<meta charset=koi8-r": NOT_FOUND,
    _BODY + b"<meta charset='koi8-r'": NOT_FOUND,
    # behind byte 1024: as long as the head lasts
    _HEAD + _FILL + _META + _BODY: FOUND,
    _HEAD + _FILL + b"<title>a<b</title><script>'<p>'</script><link>" + _META + _BODY: FOUND,
    _HEAD + _FILL + b"<script>'<meta charset=windows-1256>'</script><style><p></style>" + _META + _BODY: FOUND,
    _HEAD + _FILL + b"<meta charset=unknown>" + _META + _BODY: FOUND,
    _HEAD + b"</head><body>" + _FILL + _META + _BODY: NOT_FOUND,
    _HEAD + _FILL + b"<p>" + _META + _BODY: NOT_FOUND,
    _HEAD + b" " * (1024 - len(_HEAD) - 10) + _META + _BODY: FOUND,  # cut by byte 1024
    # not markup of its own
    b"<!-- " + _META + b" -->" + _BODY: NOT_FOUND,
    b"<p title='<meta charset=koi8-r>'>" + _BODY: NOT_FOUND,
    # XML declarations: behind those of HTML
    b"<?xml version='1.0' encoding='koi8-r'?>" + _BODY: FOUND,
    b"<?xml version='1.0' encoding='windows-1256'?>" + _META + _BODY: FOUND,
    b"<?xml version='1.0' encoding='koi 8-r'?>" + _BODY: NOT_FOUND,
    b" <?xml version='1.0' encoding='koi8-r'?>" + _BODY: NOT_FOUND,
    # UTF-16 without a mark
    "<?xml version='1.0'?><p>Żółw".encode("utf-16-le"): "utf-16le",
    "<?xml version='1.0'?><p>Żółw".encode("utf-16-be"): "utf-16be",
}
