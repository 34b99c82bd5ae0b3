"""Which pieces of text a domain has shown: exactly, up to a number of them, then the oldest are forgotten."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

MOST_SEEN = 50_000  # pieces at least, and at most twice as many
BYTES_EACH = 70  # of memory


class SeenText:
    """Hashes of pieces. Those that are shown again and again, as the frame of a site is, are never forgotten."""

    def __init__(self, young: Iterable[int] = (), old: Iterable[int] = (), *, most: int = MOST_SEEN) -> None:
        self._young, self._old, self._most = set(young), set(old), most

    @property
    def size(self) -> int:
        """Return about how many bytes of memory it takes."""
        return BYTES_EACH * (len(self._young) + len(self._old))

    def add(self, pieces: Mapping[int, int]) -> int:
        """Note the pieces of a page, hashes with their weights; return the weight of those that are new."""
        new = pieces.keys() - self._young
        if self._old:
            new -= self._old
        self._young.update(pieces)
        if len(self._young) > self._most:
            self._young, self._old = set(), self._young
        return sum([pieces[each] for each in new])

    def encode(self) -> tuple[bytes, bytes]:
        """Return the hashes, 4 bytes each, as `decode_seen` takes them."""
        return array("I", self._young).tobytes(), array("I", self._old).tobytes()


def decode_seen(parts: tuple[bytes, bytes]) -> SeenText:
    young, old = array("I"), array("I")
    young.frombytes(parts[0])
    old.frombytes(parts[1])
    return SeenText(young, old)
