"""The keys of everything that is published. Names from outside are checked here before they become a key.

blobs/sha256/HASH.json          content, and the shards of large indexes; each hashes to its name
snapshots/VERSION/…             one version
snapshots/_history/SEQUENCE.json  commit records: the authority on what is live and what is kept
snapshots/_leases/, _trash/     who is publishing now; blobs that gc has removed
latest.json                     a copy of the head of the history: the only public key that changes
"""

from __future__ import annotations

import hashlib
import re

from webmill.errors import BadInput

BLOBS = "blobs/sha256/"
SNAPSHOTS = "snapshots/"
HISTORY = "snapshots/_history/"
LEASES = "snapshots/_leases/"
TRASH = "snapshots/_trash/"
RUNS = "snapshots/_runs/"
BEGUN = f"{LEASES}begun.json"  # there until the first commit
LAST_CHECK = f"{LEASES}looked.json"  # when a publisher last found nothing to publish
LATEST = "latest.json"
MANIFEST = "_manifest.json"

_HASH = re.compile("[0-9a-f]{64}")
_VERSION = re.compile("[0-9]{8}-[0-9a-f]{8}")
_RUN = re.compile("[0-9A-Za-z][0-9A-Za-z._-]{0,99}")
_NAME = re.compile(r"([^/]+)\.json")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_hash(text: str) -> str:
    if not _HASH.fullmatch(text):
        raise BadInput(f"not a SHA-256 in lower-case hex: {text[:80]!r}", reason="bad_hash")
    return text


def check_version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise BadInput(f"not the name of a version: {text[:80]!r}", reason="bad_version")
    return text


def check_run(text: str) -> str:
    if not _RUN.fullmatch(text):
        raise BadInput(f"not the name of a run: {text[:80]!r}", reason="bad_run")
    return text


def blob_key(hash_: str) -> str:
    return f"{BLOBS}{check_hash(hash_)}.json"


def trash_key(hash_: str) -> str:
    return f"{TRASH}{check_hash(hash_)}.json"


def hash_of_key(key: str) -> str | None:
    """Return the hash that a key in `BLOBS` or `TRASH` names; None for a key that is not ours."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return match[1] if match and _HASH.fullmatch(match[1]) else None


def record_key(sequence: int) -> str:
    return f"{HISTORY}{sequence:012d}.json"


def version_folder(version: str) -> str:
    return f"{SNAPSHOTS}{check_version(version)}/"


def version_name(sequence: int, token: str) -> str:
    """Return the sequence that its publisher expects, with a token that no other publisher has."""
    return f"{sequence:08d}-{token}"


def version_of_key(key: str) -> str | None:
    """Return the version that a key below `SNAPSHOTS` belongs to; None for our other folders and foreign files.

    All that a version consists of is JSON.
    """
    name = key.removeprefix(SNAPSHOTS).partition("/")[0]
    return name if _VERSION.fullmatch(name) and key.endswith(".json") else None
