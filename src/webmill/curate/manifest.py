"""The manifest of a data set, manifest.json: every file with its size and SHA-256, the recipe, what changed since the
version before; signed with Ed25519 if there is a key.

The signature is of the manifest's bytes with an empty `signature`, so that both are replaced together.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra.files import os_errors

MANIFEST, CARD = "manifest.json", "README.md"
FORMAT = 1
CHUNK = 1 << 20
DIGEST = 12  # characters of a hash in names


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the data set, by its path in the folder."""

    path: str
    bytes: int
    sha256: str
    rows: int = 0


class DataChanges(msgspec.Struct, frozen=True, kw_only=True):
    """URLs that came, changed and went since the version before."""

    before: str
    added: int
    changed: int
    removed: int


class DataManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is a hash of the data: the same documents have the same version. Token ids are those of the
    `tokenizer` whose file has this SHA-256."""

    format: int = FORMAT
    name: str
    version: str
    data_format: str
    recipe: str
    documents: int
    data: tuple[DataFile, ...]
    others: tuple[DataFile, ...] = ()
    changes: DataChanges | None = None
    tokenizer: str = ""
    signature: str = ""

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*self.data, *self.others)


def version_of(data: tuple[DataFile, ...]) -> str:
    return hashlib.sha256("".join(file.sha256 for file in data).encode()).hexdigest()[:DIGEST]


def encode_manifest(manifest: DataManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"


def read_manifest(folder: Path) -> DataManifest:
    """Return the manifest of a data set. `NotFound`: the folder has none. `BadInput`: it cannot be read."""
    path = folder / MANIFEST
    with os_errors(str(path)):
        if not path.exists():
            raise NotFound(f"{folder} is no data set of webmill's: it has no {MANIFEST}")
        data = path.read_bytes()
    try:
        manifest = msgspec.json.decode(data, type=DataManifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadInput(str(error), reason="bad_manifest", source=str(path)) from None
    if manifest.format != FORMAT:
        raise BadInput(f"format {manifest.format} is of a newer webmill", reason="bad_manifest", source=str(path))
    return manifest


def describe_file(folder: Path, path: str, *, rows: int = 0) -> DataFile:
    """Return the size and hash of a file as it is."""
    digest = hashlib.sha256()
    size = 0
    with os_errors(path), (folder / path).open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return DataFile(path=path, bytes=size, sha256=digest.hexdigest(), rows=rows)


class ManifestFlaw(msgspec.Struct, frozen=True):
    """What is wrong with a file of a data set."""

    path: str
    message: str


def find_flaws(folder: Path, manifest: DataManifest) -> Iterator[ManifestFlaw]:
    """Yield every file that is not as the manifest says."""
    for stated in manifest.files:
        if not _is_inside(folder, stated.path):
            yield ManifestFlaw(stated.path, "is not a path in the folder")
        elif not (folder / stated.path).is_file():
            yield ManifestFlaw(stated.path, "is missing")
        else:
            found = describe_file(folder, stated.path)
            if found.bytes != stated.bytes:
                yield ManifestFlaw(stated.path, f"has {found.bytes:,} bytes instead of {stated.bytes:,}")
            elif found.sha256 != stated.sha256:
                yield ManifestFlaw(stated.path, "has other bytes: the SHA-256 differs")


def _is_inside(folder: Path, path: str) -> bool:
    return bool(path) and "\0" not in path and (folder / path).resolve().is_relative_to(folder.resolve())


# --- signatures ---


def signed(manifest: DataManifest, key: Path) -> DataManifest:
    """Return the manifest with a signature by a private Ed25519 key in PEM without a password."""
    private = _load_key(key, "load_pem_private_key", password=None)
    signature = base64.b64encode(private.sign(_signed_bytes(manifest))).decode()
    return msgspec.structs.replace(manifest, signature=signature)


def check_signature(manifest: DataManifest, key: Path) -> None:
    """Raise `BadInput` unless the manifest is signed with this public Ed25519 key (PEM)."""
    public = _load_key(key, "load_pem_public_key")
    if not manifest.signature:
        raise BadInput("the manifest is not signed", reason="bad_signature", source=MANIFEST)
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(base64.b64decode(manifest.signature), _signed_bytes(manifest))
    except (InvalidSignature, ValueError):
        raise BadInput("the signature is not by this key", reason="bad_signature", source=MANIFEST) from None


def _signed_bytes(manifest: DataManifest) -> bytes:
    return encode_manifest(msgspec.structs.replace(manifest, signature=""))


def _load_key(path: Path, loader: str, **options: Any) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as missing:
        raise Misconfigured("signatures need an extra: pip install 'webmill[sign]'") from missing
    with os_errors(str(path)):
        data = path.read_bytes()
    try:
        key = getattr(serialization, loader)(data, **options)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Misconfigured(f"{path} is not a key in PEM without a password: {error}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise Misconfigured(f"{path} is not an Ed25519 key: make one with `openssl genpkey -algorithm ed25519`")
    return key
