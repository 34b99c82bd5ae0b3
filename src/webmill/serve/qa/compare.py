"""How alike two views of a page are: their texts and their pictures, each from 0 to 1."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import numpy.typing as npt

from webmill.errors import BadInput
from webmill.formats.png import Pixels, read_png

MOST_WORDS = 50_000
BLOCK = 8  # pixels of a block that is compared as one
SEEN = 24  # of 255: less difference nobody sees
_WORD = re.compile(r"\w+|[^\w\s]")


def text_likeness(one: str, other: str) -> float:
    """Return which share of neighbouring words both texts have (Dice's coefficient)."""
    pairs, others = _pairs(one), _pairs(other)
    total = pairs.total() + others.total()
    return 2 * (pairs & others).total() / total if total else 1.0


def _pairs(text: str) -> Counter[tuple[str, str]]:
    words = ["", *_WORD.findall(text)[:MOST_WORDS]]
    return Counter(zip(words, [*words[1:], ""], strict=True)) if len(words) > 1 else Counter()


def picture_likeness(one: bytes, other: bytes) -> float | None:
    """Return which share of two PNG pictures looks the same; None when one of them cannot be read.

    A picture that is several times as wide as the other is compared at the size of the smaller one.
    """
    try:
        pixels, others = read_png(one), read_png(other)
    except BadInput:
        return None
    width = min(pixels.shape[1], others.shape[1])
    return _alike(_blocks(pixels, width), _blocks(others, width))


def _alike(blocks: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> float | None:
    height, width = max(blocks.shape[0], others.shape[0]), max(blocks.shape[1], others.shape[1])
    same = min(blocks.shape[0], others.shape[0]), min(blocks.shape[1], others.shape[1])
    if not height * width:
        return None
    differences = np.abs(blocks[: same[0], : same[1]] - others[: same[0], : same[1]]).max(axis=2)
    return float((differences < SEEN).sum() / (height * width))


def _blocks(pixels: Pixels, base: int) -> npt.NDArray[np.float64]:
    """Return the mean colours of the blocks of a picture, as they would be at a width of `base`."""
    block = BLOCK * max(1, round(pixels.shape[1] / max(1, base)))
    height, width = pixels.shape[0] // block * block, pixels.shape[1] // block * block
    cut = pixels[:height, :width].astype(np.float64)
    means: npt.NDArray[np.float64] = cut.reshape(height // block, block, width // block, block, 3).mean(axis=(1, 3))
    return means
