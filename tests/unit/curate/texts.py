"""Texts as the web has them: those of the real samples where they are, and made ones for every language."""

from __future__ import annotations

import gzip
import random

from tests.conftest import SHARED_DATA

SAMPLE = SHARED_DATA / "triple" / "CC-MAIN-20240712094214-20240712124214-00000.warc.wet.gz"
WORDS = {
    "eng": "the of and to have with be that river boat light stone house wind road night morning paper letter",
    "deu": "der die und nicht mit Straße Größe über schön Haus Wind Nacht Brücke Fluss Licht Stein",
    "rus": "и в не на что дом ветер дорога ночь утро бумага письмо река лодка свет камень",
    "kor": "그리고 강 배 빛 돌 집 바람 길 밤 아침 종이 편지 사람 나라 시간",
}
UNSPACED = {
    "zho": "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面",
    "jpn": "の日本人は行くカタカナとひらがなを書くことができるので東京から京都まで新幹線で",
    "tha": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทยและมีน้ำใส",
}
LINES = (
    "Please enable JavaScript to view this page.",
    "This site uses cookies to improve your experience.",
    "Lorem ipsum dolor sit amet, consectetur.",
    "- a bullet",
    "• another",
    "Read more...",
    "More…",
    "function() { return 1; }",
    "#tag #tag #tag",
    "He said so.[12] And so did she.[citation needed]",
    "3.14 and 1,000 are numbers; don't you think?",
    "a\u0301e\u0308 combining, and a soft\u00adhyphen",
    "\u2028separator\x0bbreaks\x85here",
    "----------",
    "",
    "",
)


def real_texts() -> list[str]:
    """Return the texts of the sample of Common Crawl; none where it is not at hand."""
    if not SAMPLE.is_file():
        return []
    records = gzip.decompress(SAMPLE.read_bytes()).decode("utf-8", "replace").split("WARC/1.0\r\n")
    return [record.partition("\r\n\r\n")[2].strip("\r\n") for record in records if "conversion" in record[:200]]


def made_texts(count: int, *, seed: int = 7) -> list[str]:
    """Return texts of several languages with what filters look for: repeated lines, bullets, notices, numbers."""
    drawn = random.Random(seed)
    return [made_text(drawn) for _ in range(count)]


def made_text(drawn: random.Random) -> str:
    lines: list[str] = []
    for _ in range(drawn.randint(1, 25)):
        kind = drawn.random()
        if kind < 0.25:
            lines.append(drawn.choice(LINES))
        elif kind < 0.35 and lines:
            lines.append(drawn.choice(lines))
        else:
            lines.append(made_line(drawn))
    return drawn.choice(["\n", "\n", "\n\n", "\r\n"]).join(lines)


def made_line(drawn: random.Random) -> str:
    if drawn.random() < 0.2:
        alphabet = UNSPACED[drawn.choice(list(UNSPACED))]
        return "".join(drawn.choices(alphabet, k=drawn.randint(3, 60))) + drawn.choice(["。", "", "！"])
    words = WORDS[drawn.choice(list(WORDS))].split()
    return " ".join(drawn.choices(words, k=drawn.randint(1, 40))) + drawn.choice([".", "?", "", " ", "..."])
