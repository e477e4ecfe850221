"""The sealed file of one machine: what its processes need of the site's folder, and nothing else.

In: files by their place in the folder, a code. Out: bytes, and the files again. Raises BundleError.
Never: a file whose place is none of the folder's; a byte that was altered; a secret in an error.

    "databus bundle 1\\n" · salt (16) · nonce (12) · AES-256-GCM of JSON, bound to the first three

The key is derived from the code by scrypt (RFC 7914), so that a code that people have chosen cannot
be tried quickly, either.
"""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import PurePosixPath

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from deploy.secure.layout import (
    AUTHORITY_CERTIFICATE,
    CONVERSION_FILE,
    ENSEMBLE_READER,
    PAIR,
)

MAGIC = b"databus bundle 1\n"
SALT_BYTES, NONCE_BYTES, KEY_BYTES = 16, 12, 32
SCRYPT_ROUNDS, SCRYPT_BLOCKS = 1 << 15, 8
"""32 MB of memory and a tenth of a second for each code that is tried."""
MAX_BUNDLE_BYTES = 1 << 20
"""A machine's keys and accounts are a few kilobytes."""
_PLACE = re.compile(
    r"nodes/broker-[0-9]{1,9}/(broker\.(pem|toml)|zookeeper\.pem)"
    r"|(sites/[A-Za-z0-9][A-Za-z0-9_-]{0,63}/)?accounts/[a-z][a-z0-9-]{0,63}\.toml"
    r"|sites/[A-Za-z0-9][A-Za-z0-9_-]{0,63}/ca\.pem"
)
_FIXED_PLACES = tuple(
    place.as_posix() for place in (AUTHORITY_CERTIFICATE, CONVERSION_FILE, ENSEMBLE_READER, PAIR)
)


class BundleError(Exception):
    """A file that cannot be opened, or not be made; the text says what to look at."""


class SiteBundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one machine gets. `bundle_id`: of this file alone. `files`: by their place below the
    site's folder, with slashes."""

    host: str
    bundle_id: str
    made_at: datetime
    ends_at: datetime
    files: dict[str, bytes]

    def __post_init__(self) -> None:
        """Raises ValueError for a place that is not one of the folder, and without an authority."""
        for place in self.files:
            if not is_place(place):
                raise ValueError("a place that is none of the folder's")
        if AUTHORITY_CERTIFICATE.as_posix() not in self.files:
            raise ValueError("no certificate of an authority")
        if self.made_at.tzinfo is None or self.ends_at.tzinfo is None:
            raise ValueError("a time without a zone")


_DECODER = msgspec.json.Decoder(SiteBundle)


def is_place(text: str) -> bool:
    """Whether a bundle may have a file there: never above the folder, nor an authority's key."""
    if str(PurePosixPath(text)) != text:
        return False
    return text in _FIXED_PLACES or _PLACE.fullmatch(text) is not None


def seal(bundle: SiteBundle, code: str) -> bytes:
    """Sealed with this code, with a salt of its own. Raises BundleError where it is too large."""
    head = MAGIC + os.urandom(SALT_BYTES) + os.urandom(NONCE_BYTES)
    sealed = head + _cipher(head, code).encrypt(_nonce(head), msgspec.json.encode(bundle), head)
    if len(sealed) > MAX_BUNDLE_BYTES:
        raise BundleError(f"{len(sealed)} bytes; a bundle has {MAX_BUNDLE_BYTES} at most")
    return sealed


def unseal(data: bytes, code: str) -> SiteBundle:
    """Raises BundleError."""
    size = len(MAGIC) + SALT_BYTES + NONCE_BYTES
    if not data.startswith(MAGIC) or not size < len(data) <= MAX_BUNDLE_BYTES:
        raise BundleError("it is no bundle of this version, or not the whole of it")
    head = data[:size]
    try:
        return _DECODER.decode(_cipher(head, code).decrypt(_nonce(head), data[size:], head))
    except InvalidTag:
        raise BundleError("the code is another one, or the file was altered") from None
    except (msgspec.MsgspecError, ValueError):
        raise BundleError("it is sealed with this code, and holds something else") from None


def _cipher(head: bytes, code: str) -> AESGCM:
    salt = head[len(MAGIC) :][:SALT_BYTES]
    derived = Scrypt(salt=salt, length=KEY_BYTES, n=SCRYPT_ROUNDS, r=SCRYPT_BLOCKS, p=1)
    return AESGCM(derived.derive(code.encode()))


def _nonce(head: bytes) -> bytes:
    return head[-NONCE_BYTES:]
