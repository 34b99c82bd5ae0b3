"""Quality filters: ours beside datatrove's, as it comes and with our words, on 20,000 documents of real pages.

datatrove's own words are spaCy's; its decisions then differ, and that is said. With our words it must decide as we do.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)

from benchmarks.curating_texts import real_texts
from webmill.curate.filters.quality import CITATION, count_sentences
from webmill.curate.filters.steps import C4Quality, FineWebQuality, GopherQuality, GopherRepetition
from webmill.curate.measuring import small_batches
from webmill.curate.steps import CurateBatch, judge
from webmill.curate.text_batch import TextBatch

COUNT, SAMPLED = 20_000, 300  # documents; of them for datatrove as it comes
ROOT = Path(__file__).parents[1]
RIVALS = ROOT / ".venv-corpora" / "bin" / "python"
THEIRS = "datatrove.pipeline.filters"
PAIRS = {
    "gopher-quality": (GopherQuality(), GopherQualityFilter()),
    "gopher-repetition": (GopherRepetition(), GopherRepetitionFilter()),
    "c4-quality": (C4Quality(), C4QualityFilter()),
    "fineweb-quality": (FineWebQuality(), FineWebQualityFilter()),
}


def main() -> None:
    texts = real_texts(COUNT)
    ours, cpu = our_decisions(texts)
    mean = sum(map(len, texts)) / len(texts)
    rate = len(texts) / cpu
    print(f"\n## Quality filters: {len(texts):,} documents of real pages, {mean:,.0f} characters on average\n")
    print("| | documents/s of CPU | times our CPU |\n|---|---:|---:|")
    print(f"| webmill: Gopher's two, C4's, FineWeb's | {rate:,.0f} | 1.00 |")
    came = run_rival("datatrove", texts[:: len(texts) // SAMPLED][:SAMPLED])
    if came:
        theirs = SAMPLED / came["cpu"]
        print(f"| datatrove as it comes, without C4's ({SAMPLED} documents) | {theirs:,.0f} | {rate / theirs:,.1f} |")
    agreed, seconds = agreement(texts, ours)
    print(f"| datatrove with our words: all four | {len(texts) / seconds:,.0f} | {seconds / cpu:,.1f} |\n")
    print("| filter | ours keeps | decided alike, same words |\n|---|---:|---:|")
    for name, share in agreed.items():
        print(f"| {name} | {sum(ours[name]) / len(texts):.1%} | {share:.3%} |")


def our_decisions(texts: Sequence[str]) -> tuple[dict[str, list[bool]], float]:
    """Return for each filter what it keeps, and the CPU seconds of all."""
    TextBatch(["warm up é"]).words.starts  # noqa: B018 - tables that are made once
    kept: dict[str, list[bool]] = {name: [] for name in PAIRS}
    begin = time.process_time()
    for columns in small_batches([{"text": list(texts)}]):
        batch = CurateBatch(columns["text"], columns)
        for name, (step, _) in PAIRS.items():
            broken, _values = judge(step.limits(), step.measure(batch), size=batch.size)
            kept[name] += (broken < 0).tolist()
    return kept, time.process_time() - begin


def agreement(texts: Sequence[str], ours: dict[str, list[bool]]) -> tuple[dict[str, float], float]:
    """Return the share of documents that datatrove decides as we do when it has our words; and its CPU seconds."""
    shares, seconds = {}, 0.0
    words = words_of(texts)
    counts = sentence_counts(texts)
    with (
        patch(f"{THEIRS}.gopher_quality_filter.split_into_words", lambda text, _: words[text]),
        patch(f"{THEIRS}.gopher_repetition_filter.split_into_words", lambda text, _: words[text]),
        patch(f"{THEIRS}.fineweb_quality_filter.split_into_words", lambda text, _: words[text]),
        patch(f"{THEIRS}.c4_filters.split_into_sentences", lambda line, _: [None] * counts[line]),
    ):
        for name, (_, theirs) in PAIRS.items():
            begin = time.process_time()
            decided = [theirs.filter(Document(text=text, id="")) is True for text in texts]
            seconds += time.process_time() - begin
            shares[name] = sum(map(bool.__eq__, decided, ours[name])) / len(texts)
    return shares, seconds


def words_of(texts: Sequence[str]) -> dict[str, list[str]]:
    found = {}
    for columns in small_batches([{"text": list(texts)}]):
        batch = TextBatch(columns["text"])
        bounds = zip(batch.words.starts.tolist(), batch.words.ends.tolist(), strict=True)
        words = [batch.joined[start:end] for start, end in bounds]
        firsts = batch.first_words.tolist()
        found |= {text: words[firsts[number] : firsts[number + 1]] for number, text in enumerate(batch.texts)}
    return found


def sentence_counts(texts: Sequence[str]) -> dict[str, int]:
    """Return the number of sentences of every line, as C4's filter asks for it: stripped, without citations."""
    found: dict[str, int] = {}
    for text in texts:
        lines = [CITATION.sub("", line.strip()) for line in text.splitlines()]
        batch = TextBatch(lines)
        found.update(zip(lines, count_sentences(batch, batch.newline_lines).tolist(), strict=True))
    return found


def run_rival(tool: str, texts: Sequence[str], unit: str = "words") -> dict[str, Any] | None:
    """Return what a rival says; None where its environment is not there."""
    if not RIVALS.exists():
        print(f"\n(no {tool}: `make .venv-corpora/.ready` makes its environment)\n")
        return None
    command = [str(RIVALS), str(ROOT / "benchmarks" / "rivals" / "corpora.py"), tool, unit]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
