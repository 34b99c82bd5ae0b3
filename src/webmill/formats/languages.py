"""The languages of a page as Common Crawl writes them in metadata records: the `languages-cld2` field.

{"reliable":true,"text-bytes":1800,
 "languages":[{"code":"de","code-iso-639-3":"deu","text-covered":0.99,"score":997.0,"name":"GERMAN"}]}
"""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput


class DetectedLanguage(msgspec.Struct, frozen=True, rename={"iso": "code-iso-639-3", "covered": "text-covered"}):
    """One language of a page. `covered` is its share of the text, 0 to 1."""

    code: str = ""
    iso: str = ""
    covered: float = 0.0
    score: float = 0.0
    name: str = ""


class DetectedLanguages(msgspec.Struct, frozen=True, rename={"text_bytes": "text-bytes"}):
    """The languages of a page, the one with the most text first."""

    reliable: bool = False
    text_bytes: int = 0
    languages: tuple[DetectedLanguage, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The ISO-639-3 codes, each once: CLD2 tells two scripts of Chinese apart."""
        return tuple(dict.fromkeys(one.iso for one in self.languages if one.iso))

    def share(self, code: str) -> float:
        """Return the share of the text in this language, 0 to 1."""
        return min(1.0, round(sum(one.covered for one in self.languages if one.iso == code), 4))


_DECODER = msgspec.json.Decoder(DetectedLanguages, strict=False)  # numbers may be in quotes


def parse_cld2(text: str) -> DetectedLanguages:
    """Parse a `languages-cld2` field. Raise BadInput (bad_languages)."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"languages-cld2: {error}", reason="bad_languages") from None
