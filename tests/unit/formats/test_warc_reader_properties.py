"""Cut anywhere, flip anything, feed anything: good records come out unharmed, everything else is told."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.formats.framed import Trickle, gz, items, record, records
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.reader import read_records
from webmill.model import Damage, Record

PARTS = [record(1, b"first"), record(2, b"second\r\n\r\nline"), record(3, bytes(range(200)))]
LAYOUTS = {"plain": PARTS, "gzip": [gz(part) for part in PARTS], "stored": [gz(part, level=0) for part in PARTS]}
SCRAPS = [
    *(b"\x1f\x8b\x08\x00", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18\xff\xff"),
    *(b"WARC/1.0\r\n", b"\nWARC/1.0\r\nA", b"Content-Length: 99999999\r\n", b"\r\n\r\n", b"\n", bytes(9)),
    *(b"filedesc://x 1 20140101000000 t -1\n", b"http://x/ 1.2.3.4 20140101000000 text/html 5\nhello\n"),
]
UNHURRIED = settings(deadline=None)


def contents(found: list[Record | Damage]) -> list[bytes]:
    return [item.content for item in found if isinstance(item, Record)]


ALL = contents(items(b"".join(PARTS)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_cut_at_any_byte_gives_what_is_before_and_one_damage(layout: str) -> None:
    parts = LAYOUTS[layout]
    data = b"".join(parts)
    ends = [len(b"".join(parts[: n + 1])) for n in range(len(parts))]
    for cut in range(len(data) + 1):
        found = items(data[:cut])
        whole = [end for end in ends if end <= cut]
        start = whole[-1] if whole else 0
        if cut == start:
            assert (contents(found), len(found)) == (ALL[: len(whole)], len(whole))
            continue
        damage = found.pop()
        assert isinstance(damage, Damage)
        assert damage.end == cut
        if layout == "plain" and cut >= ends[len(whole)] - 4:  # only the two empty lines are torn: the block is there
            assert (damage.offset, damage.reason) == (ends[len(whole)] - 4, "missing_terminator")
            assert contents(found) == ALL[: len(whole) + 1]
        else:
            reason = "truncated_record" if layout == "plain" else "truncated_member"
            assert (damage.offset, damage.reason) == (start, reason)
            assert contents(found) == ALL[: len(whole)]
        assert len(found) == len(contents(found))


@pytest.mark.parametrize("layout", ["gzip", "stored"])
def test_any_flipped_byte_of_a_member_costs_that_record_at_most(layout: str) -> None:
    parts = LAYOUTS[layout]
    data = b"".join(parts)
    for at in range(len(data)):
        hit = next(n for n in range(3) if at < len(b"".join(parts[: n + 1])))
        for mask in (0x01, 0x80, 0xFF):
            flipped = bytearray(data)
            flipped[at] ^= mask
            found = items(bytes(flipped))
            assert list(read_records(Trickle(bytes(flipped), step=50))) == found
            rest = ALL[:hit] + ALL[hit + 1 :]
            harmless = contents(found) == ALL  # the header's time, system and hints are under no checksum
            assert harmless or (contents(found) == rest and len(found) > len(rest))


@UNHURRIED
@given(at=st.integers(0, len(b"".join(PARTS)) - 1), mask=st.integers(1, 255))
def test_any_flipped_byte_of_a_plain_file_leaves_the_records_before_it_alone(at: int, mask: int) -> None:
    data = bytearray(b"".join(PARTS))
    data[at] ^= mask
    hit = next(n for n in range(3) if at < len(b"".join(PARTS[: n + 1])))
    assert contents(items(bytes(data)))[:hit] == ALL[:hit]


@settings(deadline=None, max_examples=400)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([*PARTS, *LAYOUTS["gzip"], *LAYOUTS["stored"]]),
            st.binary(max_size=60),
            st.sampled_from(SCRAPS),
        ),
        max_size=8,
    )
)
def test_anything_at_all_is_read_to_its_end(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    found = items(data)
    places = [item.offset for item in found]
    assert places == sorted(places)
    assert list(read_records(Trickle(data, step=11))) == found
    assert list(read_records(io.BytesIO(data), limits=WarcLimits(block=64, head=256))) is not None


@UNHURRIED
@given(
    st.lists(st.tuples(st.binary(max_size=300), st.sampled_from(["plain", "gzip", "stored"])), max_size=6),
    st.text("abcXYZ -:;=é", max_size=30),
)
def test_what_is_framed_by_hand_is_read_back(bodies: list[tuple[bytes, str]], value: str) -> None:
    pack = {"plain": bytes, "gzip": gz, "stored": lambda data: gz(data, level=0)}
    extra = f"X-Value: {value}\r\n".encode()
    stored = [pack[how](record(n, body, extra=extra)) for n, (body, how) in enumerate(bodies)]
    found = records(b"".join(stored))
    assert [r.content for r in found] == [body for body, _ in bodies]
    assert [r.length for r in found] == [len(part) for part in stored]
    assert {r.headers.get("x-value") for r in found} <= {value.strip(" ")}
    assert len(items(b"".join(stored))) == len(found)


@UNHURRIED
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(1, 400))
def test_a_member_of_many_records_is_read_with_any_limit(bodies: list[bytes], limit: int) -> None:
    data = gz(b"".join(record(n, body) for n, body in enumerate(bodies)))
    found = items(data, limits=WarcLimits(block=limit))
    assert contents(found) == [body[:limit] for body in bodies]
    assert [item.cut for item in found if isinstance(item, Record)] == [len(body) > limit for body in bodies]
