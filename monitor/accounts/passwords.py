"""Hashes and verifies passwords with scrypt, as a self-describing line `scrypt$n$r$p$salt$hash`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

# RFC 7914's interactive cost, doubled: about 60 ms and 32 MiB per attempt on a small server.
_N, _R, _P = 2**15, 8, 1
_SALT_BYTES = 16
_MAX_MEMORY_BYTES = 128 * 1024 * 1024
MIN_PASSWORD_CHARACTERS = 8
MAX_PASSWORD_CHARACTERS = 256  # a longer one only costs us time


class WeakPassword(ValueError):
    """The password is too short or too long to be taken."""


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=n,
        r=r,
        p=p,
        maxmem=_MAX_MEMORY_BYTES,
        dklen=32,
    )


def hash_password(password: str) -> str:
    """The line to keep. Raises `WeakPassword`."""
    if not MIN_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
        raise WeakPassword(
            f"a password has {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters"
        )
    salt = os.urandom(_SALT_BYTES)
    digest = _scrypt(password, salt, _N, _R, _P)
    parts = (str(_N), str(_R), str(_P), _text(salt), _text(digest))
    return "$".join(("scrypt", *parts))


def verify_password(password: str, line: str) -> bool:
    """Whether the password made this line. A line that cannot be read fits no password."""
    try:
        scheme, n, r, p, salt, digest = line.split("$")
        if scheme != "scrypt" or len(password) > MAX_PASSWORD_CHARACTERS:
            return False
        found = _scrypt(password, base64.b64decode(salt), int(n), int(r), int(p))
        return hmac.compare_digest(found, base64.b64decode(digest))
    except (ValueError, MemoryError):
        return False


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


# Verified when the account is unknown, so that the answer takes as long as for a known one.
UNKNOWN_ACCOUNT = "$".join(
    ("scrypt", str(_N), str(_R), str(_P), _text(bytes(16)), _text(bytes(32)))
)
