"""Splits text into words. Scripts without spaces between words, and Korean, whose words carry particles, are split
into bigrams: so any part of a sentence can be found."""

from __future__ import annotations

import re
import unicodedata

# Thai, Lao, Myanmar, Khmer; Hangul; kana, bopomofo, ideographs and their marks.
BIGRAM_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
    "\u3005-\u3007\u3031-\u3035\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003347f"
)
# All but spaces and punctuation: the vowel signs of India and the points of Hebrew belong to their words.
WORD_CHARACTER = rf"[^\s\x00-/:-@\[-`{{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u2000-\u206f\u3000-\u303f{BIGRAM_SCRIPTS}]"
RUN_PLACEHOLDER = "\ua78f"  # a letter that nobody writes; stands for a run among words
_RUN = re.compile(f"[{BIGRAM_SCRIPTS}]+")
_WORD = re.compile(f"{WORD_CHARACTER}+")
_PIECE = re.compile(f"(?P<run>[{BIGRAM_SCRIPTS}]+)|[^{BIGRAM_SCRIPTS}]+")


class _Doubled(dict[int, str]):
    """Doubles each character: `abc` becomes `a ab bc c`."""

    def __missing__(self, code: int) -> str:
        doubled = self[code] = f"{chr(code)} {chr(code)}"
        return doubled


_DOUBLED = _Doubled()


def to_nfc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def bigrams(text: str) -> str:
    """Return `서울은 東京` as `서울 울은 은 東京 京`: overlapping bigrams, and the last character alone."""
    return " ".join([run.translate(_DOUBLED)[2:] for run in _RUN.findall(text)])


def mask_runs(text: str) -> str:
    return text if text.isascii() else _RUN.sub(f" {RUN_PLACEHOLDER} ", text)


def split_runs(text: str) -> list[tuple[bool, str]]:
    """Return the runs that are searched as bigrams (True), and the text between them (False)."""
    return [(match["run"] is not None, match[0]) for match in _PIECE.finditer(to_nfc(text))]


def uses_bigrams(character: str) -> bool:
    return _RUN.match(character) is not None


def split_words(text: str) -> list[str]:
    """Return the words as they are written, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]
