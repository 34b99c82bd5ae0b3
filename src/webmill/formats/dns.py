"""Questions to name servers and their replies (RFC 1035, 2308, 6891), as far as names of web servers need them.

A reply is somebody else's bytes: every length and pointer is checked, at most `MAX_RECORDS` records are read, a pointer
leads backwards only, and what was not asked for is not believed. Only addresses of the name at the end of the chain of
aliases that begins with the question count.

| oddity | answer |
|---|---|
| cut, a pointer forwards or in circles, a name over 255 bytes | BadInput `bad_message` |
| aliases in circles, or more than `MAX_ALIASES` | BadInput `alias_loop` |
| addresses of other names, of other classes or types | left out |
| an address of a wrong length | BadInput `bad_message` |
| a time to live beyond 2^31 | 0 (RFC 2181, 8) |
| thousands of addresses | the first `MAX_RECORDS` records are read |
"""

from __future__ import annotations

from ipaddress import IPv6Address

import msgspec

from webmill.errors import BadInput

A, CNAME, SOA, AAAA, OPT = 1, 5, 6, 28, 41
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = range(6)
MAX_RECORDS = 128
MAX_ALIASES = 16
UDP_SIZE = 1232  # what travels unfragmented nearly everywhere (DNS flag day 2020)

_IN = b"\0\1"
_EXTENDED = b"\0" + OPT.to_bytes(2, "big") + UDP_SIZE.to_bytes(2, "big") + bytes(6)  # RFC 6891: how much we can take
_LONGEST_NAME, _LONGEST_LABEL = 255, 63
_LONGEST_TTL = (1 << 31) - 1


class DnsReply(msgspec.Struct, frozen=True, gc=False):
    """What a reply says of the name that was asked for."""

    code: int = NO_ERROR
    is_cut: bool = False  # the rest has to be asked for over TCP
    addresses: tuple[str, ...] = ()
    alias: bytes = b""  # the end of the chain of aliases, as `encode_name` writes it; nothing if there are none
    ttl: int = 0  # of the addresses and the aliases that led to them, the shortest; else how long there is nothing
    has_soa: bool = False  # the zone itself says that there is nothing


def encode_name(name: str) -> bytes:
    """Return a name in its form in messages. BadInput `bad_name` for what has none."""
    labels = name.removesuffix(".").encode("ascii", "replace").split(b".")
    encoded = b"".join(bytes((len(label) & 0xFF,)) + label for label in labels) + b"\0"
    is_whole = name.isascii() and all(0 < len(label) <= _LONGEST_LABEL for label in labels)
    if not is_whole or len(encoded) > _LONGEST_NAME:
        raise BadInput(f"not a name of DNS: {name[:80]!r}", reason="bad_name")
    return encoded


def mix_case(encoded: bytes, random: int) -> bytes:
    """Return an encoded name whose letters are large where `random` has a bit. Servers repeat them as they came, so
    that who cannot read the question cannot write the reply (`draft-vixie-dnsext-dns0x20`)."""
    mixed = bytearray(encoded)
    for at, byte in enumerate(encoded):
        if 97 <= byte <= 122 and random >> at & 1:  # lengths of labels are at most 63, so never letters
            mixed[at] = byte - 32
    return bytes(mixed)


def encode_question(encoded_name: bytes, kind: int) -> bytes:
    return encoded_name + kind.to_bytes(2, "big") + _IN


def encode_query(number: int, question: bytes, *, is_extended: bool) -> bytes:
    """Return a message that asks a recursive server. `is_extended`: say that replies may be larger than 512 bytes."""
    head = number.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0" + (b"\1" if is_extended else b"\0") + question
    return head + _EXTENDED if is_extended else head


def reply_number(message: bytes) -> int:
    """Return the number of the query that a message answers; -1 for what is no reply to a query."""
    if len(message) < 12 or message[2] & 0xF8 != 0x80:  # a reply, to a standard query
        return -1
    return message[0] << 8 | message[1]


def is_reply_to(question: bytes, message: bytes) -> bool:
    """Tell whether a reply repeats a question exactly, letter by letter."""
    return message[4:6] == b"\0\1" and message.startswith(question, 12)


def is_reply_in_other_case(question: bytes, message: bytes) -> bool:
    """Tell whether a reply repeats a question but for the case of its letters."""
    return message[4:6] == b"\0\1" and message[12 : 12 + len(question)].lower() == question.lower()


def decode_reply(message: bytes, question: bytes) -> DnsReply:
    """Return what a reply to `question` says. BadInput for one that nobody should believe."""
    code, is_cut = message[3] & 0x0F, bool(message[2] & 0x02)
    if is_cut or code not in (NO_ERROR, NO_SUCH_NAME):
        return DnsReply(code=code, is_cut=is_cut)
    name, kind = question[:-4].lower(), int.from_bytes(question[-4:-2], "big")
    answers, authorities = int.from_bytes(message[6:8], "big"), int.from_bytes(message[8:10], "big")
    try:
        records, at = _read_records(message, 12 + len(question), min(answers, MAX_RECORDS))
        found = _follow(records, name, kind)
        if found.addresses or answers > MAX_RECORDS:
            return found
        authority, _ = _read_records(message, at, min(authorities, MAX_RECORDS))
    except IndexError:
        raise BadInput("a reply of a name server is cut", reason="bad_message") from None
    soa = next((record for record in authority if record.kind == SOA), None)
    ttl = min(soa.ttl, _minimum(soa.content)) if soa else 0
    return DnsReply(code=code, alias=found.alias, ttl=ttl, has_soa=soa is not None)


class _Record(msgspec.Struct, frozen=True, gc=False):
    name: bytes
    kind: int
    ttl: int
    content: bytes  # of an alias the name, decompressed


def _follow(records: list[_Record], name: bytes, kind: int) -> DnsReply:
    """Return the addresses at the end of the chain of aliases that begins at a name."""
    aliases = {record.name: record for record in reversed(records) if record.kind == CNAME}
    end, ttl, passed = name, _LONGEST_TTL, 0
    while (alias := aliases.get(end)) is not None:
        passed += 1
        if passed > MAX_ALIASES:
            raise BadInput("a chain of aliases has no end", reason="alias_loop")
        end, ttl = alias.content, min(ttl, alias.ttl)
    found = [record for record in records if record.kind == kind and record.name == end]
    return DnsReply(
        addresses=tuple(dict.fromkeys(_address(record.content, kind) for record in found)),
        alias=end if passed else b"",
        ttl=min([ttl, *(record.ttl for record in found)]),
    )


def _address(content: bytes, kind: int) -> str:
    if len(content) != (4 if kind == A else 16):
        raise BadInput("an address of a wrong length", reason="bad_message")
    return "{}.{}.{}.{}".format(*content) if kind == A else str(IPv6Address(content))


def _minimum(content: bytes) -> int:
    """Return the last number of an SOA: how long it may be believed that there is nothing (RFC 2308, 4)."""
    return int.from_bytes(content[-4:], "big") if len(content) >= 22 else 0


def _read_records(message: bytes, at: int, count: int) -> tuple[list[_Record], int]:
    """Return records of the Internet's class, and where the last one ends. IndexError, BadInput."""
    records = []
    for _ in range(count):
        name, at = _read_name(message, at)
        end = at + 10 + (message[at + 8] << 8 | message[at + 9])
        if end > len(message):
            raise IndexError
        kind = message[at] << 8 | message[at + 1]
        if message[at + 2 : at + 4] == _IN and kind in (A, AAAA, CNAME, SOA):
            ttl = int.from_bytes(message[at + 4 : at + 8], "big")
            content = _read_name(message, at + 10)[0] if kind == CNAME else message[at + 10 : end]
            records.append(_Record(name, kind, 0 if ttl > _LONGEST_TTL else ttl, content))
        at = end
    return records, at


def _read_name(message: bytes, at: int) -> tuple[bytes, int]:
    """Return a name in small letters, decompressed, and where it ends in the message. IndexError, BadInput."""
    name, end, limit = bytearray(), 0, at
    while size := message[at]:
        if size >= 0xC0:
            end = end or at + 2
            at = (size & 0x3F) << 8 | message[at + 1]
            if at >= limit:  # only backwards: so it ends
                raise BadInput("a pointer in a name leads forwards", reason="bad_message")
            limit = at
            continue
        if size > _LONGEST_LABEL or len(name) + size + 2 > _LONGEST_NAME or at + size + 1 >= len(message):
            raise BadInput("a name is too long or cut", reason="bad_message")
        name += message[at : at + size + 1]
        at += size + 1
    return bytes(name.lower()) + b"\0", end or at + 1
