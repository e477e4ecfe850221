"""Who is asking, and what they may do at the edge. Pure.

In: request headers, the peer's address, the tokens. Out: a `Caller`, and yes or no.
Never: trusting what a body says about its sender.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class EdgePermission(Enum):
    """What a route does. Probing (health, the edge's totals) is open to everybody; copying pictures
    in, under names that others gave them, to mirrors with a token only."""

    SEND = "send"
    READ = "read"
    COPY = "copy"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Caller:
    """A sender or reader: its name (scope of its record numbers) and its address as seen."""

    name: str
    address: str
    permissions: frozenset[EdgePermission]
    known: bool = False  # by its token; else by its address only


def authenticate(
    headers: Mapping[str, str],
    address: str,
    senders: Mapping[str, str],
    readers: Mapping[str, str],
    mirrors: Mapping[str, str],
) -> Caller:
    """The owner of the bearer token that came, or the address itself.

    Without tokens of senders everybody may send; without those of readers, too, everybody may read
    as well. Mirrors read what they copy.
    """
    permissions = {EdgePermission.PROBE}
    if not senders:
        permissions.add(EdgePermission.SEND)
    if not senders and not readers:
        permissions.add(EdgePermission.READ)
    token, name = _bearer_token(headers.get("authorization", "")), ""
    for tokens, given in (
        (senders, (EdgePermission.SEND,)),
        (readers, (EdgePermission.READ,)),
        (mirrors, (EdgePermission.READ, EdgePermission.COPY)),
    ):
        owner = _owner(token, tokens)
        if owner:
            permissions.update(given)
            name = name or owner
    return Caller(name or address, address, frozenset(permissions), bool(name))


def authorise(caller: Caller, permission: EdgePermission) -> bool:
    """Whether the caller may do this; every request passes here."""
    return permission in caller.permissions


def _bearer_token(header: str) -> str:
    scheme, _, given = header.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _owner(token: str, tokens: Mapping[str, str]) -> str:
    """The name behind a token; compared in constant time. An empty token has no owner."""
    given = token.encode()
    for name, known in tokens.items():
        if given and hmac.compare_digest(known.encode(), given):
            return name
    return ""
