"""Mutations by dice: the same dice, the same inputs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

LONGEST = 64 << 10
INTERESTING = (
    *(
        b"\x00",
        b"\xff",
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b'"',
        b"'",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b"<",
        b">",
    ),
    *(
        b"-1",
        b"0",
        b"99999999999999999999",
        b"1e309",
        b"%00",
        b"%",
        b"../",
        b"\xed\xa0\x80",
        "é".encode(),
        "한".encode(),
    ),
    *(
        b"\x1f\x8b\x08",
        b"WARC/1.0\r\n",
        b"Content-Length: 4294967296\r\n",
        b"<!--",
        b"]]>",
        b"&#x110000;",
        b"\xe2\x80\xae",
    ),
)


def mutations(seeds: Sequence[bytes], dice: random.Random) -> Iterator[bytes]:
    """Endless. What came out may be mutated further: faults hide behind several steps."""
    pool = [seed for seed in seeds if seed] or [b"a"]
    while True:
        data = bytearray(dice.choice(pool))
        for _ in range(dice.randint(1, 6)):
            _mutate(data, dice, pool)
        made = bytes(data[:LONGEST])
        yield made
        if dice.random() < 0.02 and len(pool) < 200:
            pool.append(made)


def _mutate(data: bytearray, dice: random.Random, pool: Sequence[bytes]) -> None:
    at = dice.randrange(len(data) + 1)
    end = min(len(data), at + dice.choice((1, 1, 2, 4, 16, 64)))
    match dice.randrange(7):
        case 0:
            data[at:end] = b""
        case 1:
            data[at:at] = dice.choice(INTERESTING)
        case 2:
            data[at:end] = dice.choice(INTERESTING)
        case 3 if at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        case 4:
            data[at:at] = data[at:end] * dice.choice((1, 2, 50, 1000))
        case 5:
            other = dice.choice(pool)
            cut = dice.randrange(len(other) + 1)
            data[at:] = other[cut:]
        case _:
            data[at:end] = dice.randbytes(end - at)
    del data[LONGEST:]
