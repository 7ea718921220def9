"""Signed documents: canonical bytes in a DSSE envelope, Ed25519.

The signature covers opaque bytes, never a parsed document, so no encoder can drift under it. Envelope and
pre-authentication encoding follow the Dead Simple Signing Envelope protocol, version 1.0.2 (secure-systems-lab/dsse).
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipeline.canonical import digest_bytes
from pipeline.errors import ensure

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that can check signatures; `id` is derived from the key itself, so a name cannot lie about it."""

    raw: bytes

    @property
    def id(self) -> str:
        """The first 16 hex digits of the SHA-256 of the raw key."""
        return digest_bytes(self.raw)[:16]

    def text(self) -> str:
        """The key as base64, the form in which it is published."""
        return base64.b64encode(self.raw).decode()

    @classmethod
    def from_text(cls, text: str) -> "PublicKey":
        """Read what `text` wrote. Raises `ValueError` for anything else."""
        raw = base64.b64decode(text.strip(), validate=True)
        if len(raw) != KEY_BYTES:
            raise ValueError("a public proof key has 32 bytes, as base64")
        return cls(raw)

    def signed(self, signature: bytes, message: bytes) -> bool:
        """Whether this key made the signature over exactly this message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """The hub's own key. Its secret half is never shown by `repr` and never leaves this object."""

    def __init__(self, seed: bytes) -> None:
        ensure(len(seed) == KEY_BYTES, "a proof key has a seed of 32 bytes")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        raw = serialization.PublicFormat.Raw
        self.public = PublicKey(self._key.public_key().public_bytes(serialization.Encoding.Raw, raw))

    @classmethod
    def from_text(cls, text: str) -> "SigningKey":
        """Read an Ed25519 key: PKCS 8 as PEM, or its seed of 32 bytes as base64 or hex. Raises `ValueError` for
        anything else, without quoting it."""
        stripped = text.strip()
        try:
            if stripped.startswith("-----BEGIN"):
                return cls(_pem_seed(stripped.encode()))
            hexadecimal = len(stripped) == 2 * KEY_BYTES
            seed = bytes.fromhex(stripped) if hexadecimal else base64.b64decode(stripped, validate=True)
        except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm):
            seed = b""
        if len(seed) != KEY_BYTES:
            raise ValueError("a proof key is an Ed25519 key: PEM, or 32 bytes as base64 or hex")
        return cls(seed)

    def sign(self, message: bytes) -> bytes:
        """The signature over exactly these bytes."""
        return self._key.sign(message)


def _pem_seed(pem: bytes) -> bytes:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("not an Ed25519 key")
    raw = serialization.PrivateFormat.Raw
    return key.private_bytes(serialization.Encoding.Raw, raw, serialization.NoEncryption())


@dataclass(frozen=True, slots=True)
class Opened:
    """An envelope, read: its payload bytes, and the key that signed them (None: no known key did)."""

    payload_type: str
    payload: bytes
    key_id: str | None


def seal(payload_type: str, payload: bytes, key: SigningKey) -> bytes:
    """The payload in a DSSE envelope with one signature, as bytes that are stored and shown as they are."""
    signature = key.sign(_pre_authentication(payload_type, payload))
    return _envelope(payload_type, payload, key.public.id, signature)


def unseal(envelope: bytes, keys: Iterable[PublicKey]) -> Opened | None:
    """The payload of an envelope, with the key that signed it, or None when it is no envelope at all.

    A key signed it only if the envelope is, byte for byte, what `seal` writes with that key (white space around it
    aside): what the signature does not cover, like the key id or a field beside it, cannot be altered unseen.
    """
    document = _object(envelope)
    if document is None:
        return None
    payload_type, payload = document.get("payloadType"), _base64(document.get("payload"))
    signatures = document.get("signatures")
    if not isinstance(payload_type, str) or payload is None or not isinstance(signatures, list):
        return None
    first = signatures[0] if signatures else None
    signature = _base64(first.get("sig")) if isinstance(first, Mapping) else None
    if signature is None:
        return Opened(payload_type, payload, None)
    message = _pre_authentication(payload_type, payload)
    for key in keys:
        if key.signed(signature, message) and _envelope(payload_type, payload, key.id, signature) == envelope.strip():
            return Opened(payload_type, payload, key.id)
    return Opened(payload_type, payload, None)


def _envelope(payload_type: str, payload: bytes, key_id: str, signature: bytes) -> bytes:
    envelope = {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode()


def _pre_authentication(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode("utf-8", "surrogatepass")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _object(content: bytes) -> Mapping[str, object] | None:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _base64(text: object) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
