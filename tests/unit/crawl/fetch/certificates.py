"""Certificates for the tests of TLS: an authority, and what it signs and does not sign."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NOW = datetime.now(UTC)
_YEAR = timedelta(days=365)


class Authority:
    """`file` is what a client trusts; `issue` writes a chain and its key into one file."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self._name, self._name, self._key, start=_NOW - _YEAR, end=_NOW + _YEAR)
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        signed = builder.add_extension(constraint, critical=True).add_extension(usage, critical=True)
        self._certificate = signed.sign(self._key, hashes.SHA256())
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, *names: str, days: int = 90, padding: int = 0) -> Path:
        return self._write(names, issuer=self._name, days=days, padding=padding, key=None)

    def self_signed(self, *names: str) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        return self._write(names, issuer=_common_name(names[0]), days=90, padding=0, key=key)

    def _write(
        self,
        names: tuple[str, ...],
        *,
        issuer: x509.Name,
        days: int,
        padding: int,
        key: ec.EllipticCurvePrivateKey | None,
    ) -> Path:
        own = key or ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_common_name(names[0]), issuer, own, start=_NOW - _YEAR, end=_NOW + timedelta(days=days))
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        if padding:
            odd = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.55555.1"), b"\0" * padding)
            builder = builder.add_extension(odd, critical=False)
        certificate = builder.sign(key or self._key, hashes.SHA256())
        path = self._folder / f"{names[0].replace(':', '_')}-{days}-{padding}-{key is None}.pem"
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
