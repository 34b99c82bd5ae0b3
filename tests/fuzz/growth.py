"""Inputs that take the square of their length: a piece of a seed, again and again, once for 24 KiB and once for 48.

Mutations by dice seldom make such inputs, and coverage does not lead there: every round takes the same lines.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from tests.fuzz.fault import fault_of
from tests.fuzz.mutations import INTERESTING
from tests.fuzz.target import Target

SIZE = 24 << 10
NOTABLE = 0.1  # seconds: what is quicker is measured too badly
SQUARE = 3.0  # times as long for twice as much


def grows(target: Target, dice: random.Random, *, seconds: float) -> Iterator[tuple[bytes, str]]:
    """Such inputs, and what is wrong with them."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin, piece, rest = parts(target, dice)
        large = begin + repeated(piece, 2 * SIZE) + rest
        began = time.process_time()
        fault = fault_of(target, large)
        if fault and fault != "slow":
            yield large, fault
        elif time.process_time() - began > NOTABLE:
            ratio = spent(target, large) / max(spent(target, begin + repeated(piece, SIZE) + rest), 1e-6)
            if ratio > SQUARE:
                yield large, f"{ratio:.1f} times as slow for twice as much"


def parts(target: Target, dice: random.Random) -> tuple[bytes, bytes, bytes]:
    """What comes before, what is repeated, what comes behind."""
    seed = dice.choice(target.seeds)
    at = dice.randrange(len(seed) + 1)
    pieces = [seed[at : at + dice.choice((1, 2, 4, 8, 16, 64))], dice.choice(INTERESTING), dice.randbytes(1)]
    piece = b"".join(dice.sample(pieces, dice.choice((1, 1, 2)))) or b" "
    return seed[:at], piece, dice.choice((b"", seed[at:]))


def repeated(piece: bytes, size: int) -> bytes:
    return (piece * (size // len(piece) + 1))[:size]


def spent(target: Target, data: bytes) -> float:
    """Seconds of a processor, the quicker of two tries."""
    times = []
    for _ in range(2):
        began = time.process_time()
        target.survives(data)
        times.append(time.process_time() - began)
    return min(times)
