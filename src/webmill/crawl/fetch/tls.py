"""TLS: what we ask of a server, and the names of what can be wrong with it."""

from __future__ import annotations

import ssl
import warnings
from typing import Literal

TlsPolicy = Literal["verify", "archive"]

# Codes of OpenSSL's X509_V_ERR_*.
_REASONS = {
    9: "tls_expired",  # not yet valid
    10: "tls_expired",
    18: "tls_self_signed",
    19: "tls_self_signed",  # in its chain
    2: "tls_untrusted",
    20: "tls_untrusted",
    21: "tls_untrusted",
    62: "tls_host",
    63: "tls_host",
    64: "tls_host",
}


def strict_context() -> ssl.SSLContext:
    """Return a context that checks the certificate with the system's store (or SSL_CERT_FILE, SSL_CERT_DIR) and the
    name; TLS 1.2 and later."""
    context = ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python's default from 3.13 on; no browser is so strict
    context.set_alpn_protocols(["http/1.1"])
    return context


def lenient_context() -> ssl.SSLContext:
    """Return a context for anything that encrypts: archives keep pages of servers that nobody looks after any more."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.options |= 0x4  # SSL_OP_LEGACY_SERVER_CONNECT, which Python names from 3.12 on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # deprecated for good reason, and wanted here
        context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_alpn_protocols(["http/1.1"])
    return context


def tls_reason(error: ssl.SSLError | ssl.CertificateError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _REASONS.get(error.verify_code, "tls_other")
    return "tls_other"
