"""Judged collections: documents, queries, and which documents answer a query, as people have judged.

They are read from the folder that `BENCH_JUDGED` names, in the form in which they are given away; none is part of this
repository. Folders: adi, cran, cisi, med (SMART's format), lisa, npl, time (their own), xquad (JSON of SQuAD).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from math import log2
from pathlib import Path
from typing import Any

import msgspec

DEPTH = 10


class JudgedCollection(msgspec.Struct, frozen=True):
    """`judged`: for each query, how well documents answer it; what is not in it does not."""

    name: str
    language: str
    documents: dict[str, tuple[str, str]]  # title and text
    queries: dict[str, str]
    judged: dict[str, dict[str, int]]


def read_collections(folder: Path) -> Iterator[JudgedCollection]:
    for name, read in READERS.items():
        if (folder / name).is_dir():
            yield from read(folder / name)


def ndcg(ranked: list[str], judged: dict[str, int], *, depth: int = DEPTH) -> float:
    """Return the normalised discounted cumulative gain of the first documents, with the grades as gains."""
    gains = [judged.get(id_, 0) / log2(rank + 1) for rank, id_ in enumerate(ranked[:depth], 1)]
    best = [grade / log2(rank + 1) for rank, grade in enumerate(sorted(judged.values(), reverse=True)[:depth], 1)]
    return sum(gains) / sum(best)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _smart(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield number and fields of the entries of a file like `.I 1 / .T / … / .W / …`."""
    for entry in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, _, rest = entry.partition("\n")
        parts = re.split(r"^\.([A-Z])\s*$", rest, flags=re.MULTILINE)
        yield number.strip(), dict(zip(parts[1::2], map(_plain, parts[2::2]), strict=True))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _collection(
    name: str, documents: dict[str, tuple[str, str]], queries: dict[str, str], pairs: Iterator[tuple[str, str, int]]
) -> JudgedCollection:
    judged: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for query, document, grade in pairs:
        if query in queries and document in documents and grade > 0:
            judged[query][document] = grade
    return JudgedCollection(name, "eng", documents, {key: queries[key] for key in queries if judged[key]}, dict(judged))


def _smart_reader(documents: str, queries: str, judgements: str) -> Callable[[Path], Iterator[JudgedCollection]]:
    def read(folder: Path) -> Iterator[JudgedCollection]:
        texts = {
            number: (fields.get("T", ""), fields.get("W", "")) for number, fields in _smart(_read(folder / documents))
        }
        found = [(number, fields.get("W", "")) for number, fields in _smart(_read(folder / queries))]
        if folder.name == "cran":  # its judgements count the queries, whose numbers have gaps
            found = [(str(count), text) for count, (_, text) in enumerate(found, 1)]
        yield _collection(folder.name, texts, dict(found), _pairs(_read(folder / judgements), folder.name))

    return read


def _pairs(text: str, name: str) -> Iterator[tuple[str, str, int]]:
    for line in text.splitlines():
        fields = line.split()
        if name == "med":
            yield fields[0], fields[2], 1
        elif name == "cran":  # from 1, a complete answer, to 4; -1: of no interest
            yield fields[0], fields[1], max(0, 5 - int(fields[2])) if int(fields[2]) > 0 else 0
        elif len(fields) > 1:
            yield fields[0], fields[1], 1


def _lisa(folder: Path) -> Iterator[JudgedCollection]:
    documents = {}
    for file in sorted(folder.glob("LISA[0-9].[0-9][0-9][0-9]")):
        for entry in re.split(r"^\*{20,}\s*$", _read(file), flags=re.MULTILINE):
            if match := re.match(r"\s*Document\s+(\d+)\s*\n(.*?)\n\s*\n(.*)", entry, re.DOTALL):
                documents[match[1]] = (_plain(match[2]), _plain(match[3]))
    queries = dict(re.findall(r"^\s*(\d+)\s*\n(.*?)#", _read(folder / "LISA.QUE"), re.MULTILINE | re.DOTALL))
    pairs = []
    for entry in re.split(r"Query\s+", _read(folder / "LISA.REL"))[1:]:
        number, _, rest = entry.partition("\n")
        found = rest.partition("Refs:")[2].split("-1")[0].split()
        pairs += [(number.strip(), each, 1) for each in found]
    yield _collection("lisa", documents, {key: _plain(text) for key, text in queries.items()}, iter(pairs))


def _npl(folder: Path) -> Iterator[JudgedCollection]:
    def entries(name: str) -> dict[str, str]:
        parts = re.split(r"^\s*/\s*$", _read(folder / name), flags=re.MULTILINE)
        split = (part.split(None, 1) for part in parts)
        return {each[0]: _plain(each[1]) for each in split if len(each) == 2}

    documents = {number: ("", text) for number, text in entries("doc-text").items()}
    pairs = ((query, each, 1) for query, text in entries("rlv-ass").items() for each in text.split())
    yield _collection("npl", documents, {k: text.lower() for k, text in entries("query-text").items()}, pairs)


def _time(folder: Path) -> Iterator[JudgedCollection]:
    """Its documents are counted; their own numbers have gaps."""
    texts = re.split(r"^\*TEXT[^\n]*\n", _read(folder / "TIME.ALL").partition("*STOP")[0], flags=re.MULTILINE)[1:]
    documents = {str(count): ("", _plain(text)) for count, text in enumerate(texts, 1)}
    asked = re.split(r"^\*FIND\s+", _read(folder / "TIME.QUE").partition("*STOP")[0], flags=re.MULTILINE)[1:]
    queries = {number: _plain(text).lower() for number, text in (each.split(None, 1) for each in asked)}
    lines = [line.split() for line in _read(folder / "TIME.REL").splitlines() if line.split()]
    yield _collection("time", documents, queries, ((line[0], each, 1) for line in lines for each in line[1:]))


def _xquad(folder: Path) -> Iterator[JudgedCollection]:
    """A question is answered by the paragraph that it was asked of."""
    for file in sorted(folder.glob("xquad.*.json")):
        data: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        documents, queries, judged = {}, {}, {}
        for article in data["data"]:
            for paragraph in article["paragraphs"]:
                id_ = f"p{len(documents)}"
                documents[id_] = ("", paragraph["context"])
                for question in paragraph["qas"]:
                    queries[question["id"]] = question["question"]
                    judged[question["id"]] = {id_: 1}
        code = file.name.split(".")[1]
        yield JudgedCollection(f"xquad-{code}", LANGUAGES[code], documents, queries, judged)


LANGUAGES = {
    "ar": "ara",
    "de": "deu",
    "el": "ell",
    "en": "eng",
    "es": "spa",
    "hi": "hin",
    "ro": "ron",
    "ru": "rus",
    "th": "tha",
    "tr": "tur",
    "vi": "vie",
    "zh": "zho",
}
READERS: dict[str, Callable[[Path], Iterator[JudgedCollection]]] = {
    "adi": _smart_reader("ADI.ALL", "ADI.QRY", "ADI.REL"),
    "cisi": _smart_reader("CISI.ALL", "CISI.QRY", "CISI.REL"),
    "cran": _smart_reader("cran.all.1400", "cran.qry", "cranqrel"),
    "med": _smart_reader("MED.ALL", "MED.QRY", "MED.REL"),
    "lisa": _lisa,
    "npl": _npl,
    "time": _time,
    "xquad": _xquad,
}
