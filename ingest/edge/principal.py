"""Who is asking, and what they may do at the edge. Pure.

In: request headers, the peer's address, the tokens. Out: a `Principal`, and yes or no.
Never: trusting what a body says about its sender.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Operation(Enum):
    """What a route does. Probing (health, the edge's totals) is open to everybody."""

    SEND = "send"
    READ = "read"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Principal:
    """A sender or reader: its name (scope of its record numbers) and its address as seen."""

    name: str
    address: str
    operations: frozenset[Operation]
    known: bool = False  # by its token; else by its address only


def authenticate(
    headers: Mapping[str, str],
    address: str,
    senders: Mapping[str, str],
    readers: Mapping[str, str],
) -> Principal:
    """The owner of the bearer token that came, or whatever is at the address.

    Without tokens of senders everybody may send; without any tokens everybody may read as well.
    """
    operations = {Operation.PROBE}
    if not senders:
        operations.add(Operation.SEND)
    if not senders and not readers:
        operations.add(Operation.READ)
    token, name = _bearer_token(headers.get("authorization", "")), ""
    for tokens, operation in ((senders, Operation.SEND), (readers, Operation.READ)):
        owner = _owner(token, tokens)
        if owner:
            operations.add(operation)
            name = name or owner
    return Principal(name or address, address, frozenset(operations), bool(name))


def authorise(principal: Principal, operation: Operation) -> bool:
    """Whether the principal may do this; every request passes here."""
    return operation in principal.operations


def _bearer_token(header: str) -> str:
    scheme, _, given = header.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _owner(token: str, tokens: Mapping[str, str]) -> str:
    """The name behind a token; compared in constant time. An empty token belongs to nobody."""
    given = token.encode()
    for name, known in tokens.items():
        if given and hmac.compare_digest(known.encode(), given):
            return name
    return ""
