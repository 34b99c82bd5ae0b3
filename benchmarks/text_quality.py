"""How much of an article extractors find, and how much else: F1 and CPU beside trafilatura and jusText.

Two sets, each scored as its own repository does it: the 181 pages of article-extraction-benchmark, from the folder
`extraction` of WEBMILL_TEST_DATA (4-word shingles), and the pages of trafilatura's evaluation, from the folder that
BENCH_TRAFILATURA names, `tests` of a checkout (texts that must be there, and that must not). Each set is split into two
halves by the order of its names: the share below which `union` takes the wider text was chosen on the first halves, so
the second ones judge it. No other extractor of ours has a figure that was chosen on either.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import justext
import trafilatura
from tests.unit.extract.test_extractors import f1, overlap

from webmill.extract.extractors import extract_text
from webmill.formats.html.charset import decode_page

Extract = Callable[[str], str]
F1 = Callable[[dict[str, str]], float]  # of the texts by page
OURS = ("trafilatura", "resiliparse", "union", "plain")


def main() -> None:
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    articles = Path(os.environ.get("WEBMILL_TEST_DATA", "../shared/data")) / "extraction"
    if articles.exists():
        compare("article-extraction-benchmark", *read_articles(articles))
    if checkout := os.environ.get("BENCH_TRAFILATURA"):
        compare("trafilatura's evaluation", *read_evaluation(Path(checkout)))


def extractors() -> dict[str, Extract]:
    ours = {f"webmill {name}": lambda html, name=name: extract_text(name, html) for name in OURS}
    return {
        **ours,
        "trafilatura, standard": lambda html: trafilatura.extract(html, include_comments=False) or "",
        "trafilatura, precision": lambda html: (
            trafilatura.extract(html, include_comments=False, favor_precision=True) or ""
        ),
        "jusText, English": by_justext,
    }


def by_justext(html: str) -> str:
    parts = justext.justext(html.encode("utf-8", "replace"), justext.get_stoplist("English"))
    return "\n".join(part.text for part in parts if not part.is_boilerplate)


def compare(name: str, pages: dict[str, str], score: F1) -> None:
    print(f"\n### {name}: {len(pages)} pages\n\n| | F1 | first half | second half | characters | pages/s of CPU |")
    print("|---|---:|---:|---:|---:|---:|")
    names = sorted(pages)
    for extractor, extract in extractors().items():
        texts, seconds = extract_all(pages, extract)
        halves = [score({page: texts[page] for page in half}) for half in (names, names[::2], names[1::2])]
        figures = " | ".join(f"{value:.3f}" for value in halves)
        characters = sum(map(len, texts.values()))
        print(f"| {extractor} | {figures} | {characters:,} | {len(pages) / seconds:,.0f} |", flush=True)


def extract_all(pages: dict[str, str], extract: Extract) -> tuple[dict[str, str], float]:
    texts = {}
    began = time.process_time()
    for page, html in pages.items():
        try:
            texts[page] = extract(html)
        except Exception:  # noqa: BLE001 - extractors may raise anything
            texts[page] = ""  # a miss, as in the evaluation of trafilatura
    return texts, time.process_time() - began


# --- the sets ---------------------------------------------------------------------------------------------------------


def read_articles(folder: Path) -> tuple[dict[str, str], F1]:
    truth = json.loads((folder / "ground-truth.json").read_bytes())
    pages = {
        name: gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes()).decode("utf-8", "replace")
        for name in truth
    }
    return pages, lambda texts: f1([overlap(text, truth[page]["articleBody"]) for page, text in texts.items()])


def read_evaluation(folder: Path) -> tuple[dict[str, str], F1]:
    known = json.loads((folder / "evaldata.json").read_bytes())
    pages = {url: decode_page(file_of(folder, item["file"]).read_bytes()).text for url, item in known.items()}
    return pages, lambda texts: chunks_f1([(known[url], text) for url, text in texts.items()])


def file_of(folder: Path, name: str) -> Path:
    return next(path for path in (folder / "cache" / name, folder / "eval" / name) if path.exists())


def chunks_f1(scored: Sequence[tuple[dict[str, Any], str]]) -> float:
    found = wrong = wanted = 0
    for item, text in scored:
        page = collapse(text)
        found += sum(collapse(chunk) in page for chunk in item["with"])
        wrong += sum(collapse(chunk) in page for chunk in item["without"])
        wanted += len(item["with"])
    return 2 * found / (found + wrong + wanted)


def collapse(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
