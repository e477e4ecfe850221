"""How a client proves that it knows a camera's password without sending it (RFC 7616). Pure.

In: a challenge, name and password. Out: the value of `Authorization`. Raises `RtspError` where the
camera offers no Digest: Basic would send the password as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ingest.films.rtsp.messages import RtspError

_PART = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')
_ALGORITHMS: Mapping[str, Callable[[bytes], str]] = {
    "SHA-256": lambda data: hashlib.sha256(data).hexdigest(),
    "MD5": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
}
"""Those that cameras offer, the better one first."""


@dataclass(frozen=True, slots=True)
class DigestOffer:
    """What a camera asks with. `opaque` goes back as it came."""

    realm: str
    nonce: str
    algorithm: str = "MD5"
    opaque: str = ""
    with_qop: bool = False


def chosen_challenge(values: Iterable[str]) -> DigestOffer:
    """The best of the values of `WWW-Authenticate`. Raises `RtspError`."""
    offered = [found for value in values if (found := _challenge(value)) is not None]
    for algorithm in _ALGORITHMS:
        for one in offered:
            if one.algorithm == algorithm:
                return one
    raise RtspError("the camera asks for a password, and for none by Digest (MD5 or SHA-256)")


def authorization(
    challenge: DigestOffer, user: str, password: str, method: str, url: str,
    client_nonce: str, count: int = 1,
) -> str:  # fmt: skip
    """The header's value for one request; `client_nonce` is new for each."""
    hashed = _ALGORITHMS[challenge.algorithm]
    secret = hashed(f"{user}:{challenge.realm}:{password}".encode())
    asked = hashed(f"{method}:{url}".encode())
    parts = {"username": user, "realm": challenge.realm, "nonce": challenge.nonce, "uri": url}
    if challenge.with_qop:
        between = f"{count:08x}:{client_nonce}:auth"
        parts["response"] = hashed(f"{secret}:{challenge.nonce}:{between}:{asked}".encode())
        parts["cnonce"] = client_nonce
    else:
        parts["response"] = hashed(f"{secret}:{challenge.nonce}:{asked}".encode())
    if challenge.opaque:
        parts["opaque"] = challenge.opaque
    text = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parts.items())
    extra = f", qop=auth, nc={count:08x}" if challenge.with_qop else ""
    return f"Digest {text}, algorithm={challenge.algorithm}{extra}"


def _challenge(value: str) -> DigestOffer | None:
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() != "digest":
        return None
    parts = {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain
        for name, quoted, plain in _PART.findall(rest)
    }
    algorithm = parts.get("algorithm", "MD5").upper()
    if "nonce" not in parts or algorithm not in _ALGORITHMS:
        return None
    offered = [one.strip() for one in parts.get("qop", "").split(",")]
    return DigestOffer(
        parts.get("realm", ""), parts["nonce"], algorithm, parts.get("opaque", ""),
        "auth" in offered,
    )  # fmt: skip


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
