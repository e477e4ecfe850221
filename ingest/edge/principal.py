"""Who is asking, and whether they may: the edge's seam for the security issue. Pure.

In: request headers, the peer's address, the tokens. Out: a `Principal` or `Denied`.
Never: trusting what a body says about its sender.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass


class Denied(Exception):
    """The request names no sender that is allowed in."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A sender: its name (scope of its record numbers) and its address as seen."""

    name: str
    address: str


def authenticate(headers: Mapping[str, str], address: str, tokens: Mapping[str, str]) -> Principal:
    """The sender whose bearer token came; without tokens, whoever is at the address."""
    if not tokens:
        return Principal(name=address, address=address)
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        for name, token in tokens.items():
            if hmac.compare_digest(token.encode(), given.strip().encode()):
                return Principal(name=name, address=address)
    raise Denied("a bearer token of a known sender is needed")


def authorise(principal: Principal, operation: str, resource: str) -> bool:
    """Whether the sender may do this; every request passes here. Yes, until the security issue."""
    return True
