"""HTTP message signatures (RFC 9421) of requests, as Web Bot Auth uses them.

    fields = SignatureFields(authority="example.com", agent="https://bot.example", created=…, expires=…, keyid=…)
    base = signature_base(fields)                          # these bytes are signed
    headers = signed_headers(fields, signature)

The drafts differ in one thing: since 2026 the agent is a member of a dictionary, `Signature-Agent: sig1="https://…"`,
and the signature covers that member (`"signature-agent";key="sig1"`); before, the field was a string. Large CDNs still
read the older form, so the revision is a setting.

`check_request` verifies what others signed, with any function that verifies bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from webmill.errors import BadInput
from webmill.formats.preferences.structured_fields import FieldItem, parse_dictionary
from webmill.model import Headers

SignatureRevision = Literal["2026", "2025"]
LABEL = "sig1"
TAG = "web-bot-auth"
DIRECTORY_TAG = "http-message-signatures-directory"
MAX_AGE = 24 * 3600  # seconds that a signature may be valid at most
CLOCK_SKEW = 60  # seconds by which the clocks of two honest machines may differ


class SignatureFields(msgspec.Struct, frozen=True, kw_only=True):
    """What a signature covers and says. Without an `agent` only the authority is covered; `tag` says what it is for.
    `is_response`: the authority is that of the request which this answers."""

    authority: str  # host in lower case, with its port unless that is the scheme's own
    keyid: str  # the thumbprint of the key (RFC 7638)
    created: int
    expires: int
    agent: str = ""
    nonce: str = ""
    tag: str = TAG
    revision: SignatureRevision = "2026"
    is_response: bool = False

    @property
    def agent_field(self) -> str:
        """Return the value of the field Signature-Agent."""
        return f'{LABEL}="{self.agent}"' if self.revision == "2026" else f'"{self.agent}"'

    @property
    def parameters(self) -> str:
        """Return the covered components and the parameters, as Signature-Input has them."""
        component = f'"signature-agent";key="{LABEL}"' if self.revision == "2026" else '"signature-agent"'
        covered = ['"@authority";req' if self.is_response else '"@authority"', *([component] if self.agent else [])]
        nonce = f';nonce="{self.nonce}"' if self.nonce else ""
        return (
            f"({' '.join(covered)});created={self.created};expires={self.expires};"
            f'keyid="{self.keyid}";alg="ed25519"{nonce};tag="{self.tag}"'
        )


def signature_base(fields: SignatureFields, *, parameters: str = "") -> bytes:
    """Return what is signed (RFC 9421, 2.5). `parameters` saves making them again."""
    parameters = parameters or fields.parameters
    lines = f'"@authority"{";req" * fields.is_response}: {fields.authority}\n'
    if fields.agent and fields.revision == "2026":
        lines += f'"signature-agent";key="{LABEL}": "{fields.agent}"\n'
    elif fields.agent:
        lines += f'"signature-agent": "{fields.agent}"\n'
    return f'{lines}"@signature-params": {parameters}'.encode("ascii")


def sign_fields(fields: SignatureFields, sign: Callable[[bytes], bytes]) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a signed message."""
    parameters = fields.parameters
    signature = b64encode(sign(signature_base(fields, parameters=parameters))).decode("ascii")
    agent = (("Signature-Agent", fields.agent_field),) if fields.agent else ()
    return (*agent, ("Signature-Input", f"{LABEL}={parameters}"), ("Signature", f"{LABEL}=:{signature}:"))


class CheckedSignature(msgspec.Struct, frozen=True):
    """A signature that is valid: who made it, and the nonce by which a server knows a replayed one."""

    keyid: str
    agent: str
    nonce: str
    created: int
    expires: int


Verify = Callable[[str, bytes, bytes], bool]  # key id, signature, signed bytes


def check_request(
    headers: Headers, *, authority: str, now: float, verify: Verify, tag: str = TAG, is_response: bool = False
) -> CheckedSignature:
    """Return the signature of a message if it is valid now. BadInput says what is wrong: no_signature, bad_signature,
    expired_signature, unknown_key."""
    label, item, signature = _find_signature(headers, tag)
    said = item.parameters
    created, expires, keyid = said.get("created"), said.get("expires"), said.get("keyid")
    if not isinstance(created, int) or not isinstance(expires, int) or not isinstance(keyid, str):
        raise BadInput("the signature states no time or no key", reason="bad_signature")
    if created > now + CLOCK_SKEW or not created < expires <= created + MAX_AGE or expires < now - CLOCK_SKEW:
        raise BadInput("the signature is expired, or of the future", reason="expired_signature")
    base, agent = _received_base(item, headers, authority=authority, is_response=is_response)
    if not verify(keyid, signature, base):
        raise BadInput(f"the signature {label} is not of what was sent", reason="bad_signature")
    nonce = said.get("nonce")
    return CheckedSignature(keyid, agent, nonce if isinstance(nonce, str) else "", created, expires)


def _find_signature(headers: Headers, tag: str) -> tuple[str, FieldItem, bytes]:
    inputs = parse_dictionary(", ".join(headers.get_all("Signature-Input"))) or {}
    signatures: Mapping[str, FieldItem] = parse_dictionary(", ".join(headers.get_all("Signature"))) or {}
    for label, item in inputs.items():
        signature = signatures.get(label)
        if item.parameters.get("tag") == tag and signature and isinstance(signature.value, bytes):
            return label, item, signature.value
    raise BadInput(f"the message has no signature for {tag}", reason="no_signature")


def _received_base(item: FieldItem, headers: Headers, *, authority: str, is_response: bool) -> tuple[bytes, str]:
    """Return what should have been signed, and the agent that it names. Whatever else is covered is not understood."""
    components = item.value if isinstance(item.value, tuple) else ()
    lines, agent, has_authority = [], "", False
    for component in components:
        if component.value == "@authority" and bool(component.parameters.get("req")) == is_response:
            has_authority = True
            lines.append(f"{component.text}: {authority}")
        elif component.value == "signature-agent":
            agent, shown = _received_agent(headers, component)
            lines.append(f"{component.text}: {shown}")
        else:
            raise BadInput(f"the signature covers {component.text[:100]}", reason="bad_signature")
    if not has_authority:
        raise BadInput("the signature does not cover the authority", reason="bad_signature")
    return "\n".join([*lines, f'"@signature-params": {item.text}']).encode("utf-8"), agent


def _received_agent(headers: Headers, component: FieldItem) -> tuple[str, str]:
    field = ", ".join(headers.get_all("Signature-Agent"))
    key = component.parameters.get("key")
    if key is None:
        return field.strip().strip('"'), field.strip()
    member = (parse_dictionary(field) or {}).get(str(key))
    if member is None or not isinstance(member.value, str):
        raise BadInput("the signature covers an agent that is not named", reason="bad_signature")
    return member.value, member.text
