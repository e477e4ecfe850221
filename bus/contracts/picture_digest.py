"""The digest that goes with a picture between edges and the mirror: RFC 9530's header. Pure.

In: bytes, or a header from outside. Out: the header, or SHA-256 in 32 bytes. Never: another
algorithm.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

REPR_DIGEST = "Repr-Digest"
"""Of a picture as it is, in an answer or a request with a picture."""
WANT_REPR_DIGEST = "Want-Repr-Digest"
"""Who asks for a picture with this header gets its digest with it."""
WANTED = "sha-256=1"
DIGEST_BYTES = 32
_MEMBER = re.compile(r"\s*sha-256\s*=\s*:([A-Za-z0-9+/=]{44}):\s*")


def digest_of(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def digest_header(digest: bytes) -> str:
    """The value of `Repr-Digest`."""
    return f"sha-256=:{base64.b64encode(digest).decode('ascii')}:"


def digest_in(header: str) -> bytes | None:
    """What a header says; None where it has no SHA-256 that can be read."""
    for member in header.split(","):
        found = _MEMBER.fullmatch(member)
        if found is None:
            continue
        try:
            digest = base64.b64decode(found[1], validate=True)
        except binascii.Error:
            return None
        return digest if len(digest) == DIGEST_BYTES else None
    return None
