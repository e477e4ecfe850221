"""The first users of SCRAM, as `kafka-storage format --add-scram` takes them (KIP-900).

In: texts like `SCRAM-SHA-512=[name=alice,password=secret,iterations=8192]`. Out: records of the
metadata. Never: a password in an error's text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable

from broker.clock.port import Clock
from broker.controller.decisions.scram_credentials import CredentialUpsertion, alter_credentials
from broker.metadata.image import MetadataImage
from bus.security.sasl_server import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SCRAM_BY_TITLE,
    salted,
)

_USER = re.compile(r"\s*(?P<mechanism>[A-Z0-9-]+)\s*=\s*\[(?P<fields>.*)\]\s*", re.DOTALL)
_FIELD = re.compile(
    r"""\s*(?P<key>[a-z]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^,"\s]+))\s*(?:,|$)"""
)
_KEYS = frozenset({"name", "password", "salt", "saltedpassword", "iterations"})
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class ScramTextError(ValueError):
    """A text that names no user; it says why."""


def first_users(texts: Iterable[str], clock: Clock) -> list[object]:
    """The records of these users; one may have a credential of each mechanism. Raises
    ScramTextError."""
    records: list[object] = []
    known: set[tuple[str, int]] = set()
    for text in texts:
        change = _upsertion(text, clock)
        if (change.user, change.mechanism) in known:
            raise ScramTextError(f"{change.user!r} is there twice with the same mechanism")
        known.add((change.user, change.mechanism))
        decision = alter_credentials(MetadataImage(), [change])
        [(_, refusal)] = decision.reply
        if refusal is not None:
            raise ScramTextError(f"{change.user!r}: {refusal.message}")
        records += decision.records
    return records


def _upsertion(text: str, clock: Clock) -> CredentialUpsertion:
    match = _USER.fullmatch(text)
    mechanism = match and SCRAM_BY_TITLE.get(match["mechanism"])
    if not match or not mechanism:
        raise ScramTextError(f"write {' or '.join(SCRAM_BY_TITLE)}=[name=…,password=…]")
    fields = _fields(match["fields"])
    if ("password" in fields) == ("saltedpassword" in fields) or "name" not in fields:
        raise ScramTextError("a user has a name, and either a password or a saltedpassword")
    if "saltedpassword" in fields and "salt" not in fields:
        raise ScramTextError("a saltedpassword has its salt beside it")
    iterations = _iterations(fields.get("iterations", str(LEAST_ITERATIONS)))
    salt = _bytes("salt", fields["salt"]) if "salt" in fields else clock.new_uuid()
    if "password" in fields:
        password = salted(mechanism, fields["password"], salt, iterations)
    else:
        password = _bytes("saltedpassword", fields["saltedpassword"])
    return CredentialUpsertion(fields["name"], mechanism, iterations, salt, password)


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if not match or match["key"] not in _KEYS or match["key"] in found:
            raise ScramTextError(f"its fields are {', '.join(sorted(_KEYS))}, each once, by commas")
        quoted = match["quoted"]
        found[match["key"]] = match["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        at = match.end()
    return found


def _iterations(text: str) -> int:
    """Before a password is hashed so often."""
    if re.fullmatch("[0-9]{1,9}", text) and LEAST_ITERATIONS <= int(text) <= MOST_ITERATIONS:
        return int(text)
    raise ScramTextError(f"iterations are from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")


def _bytes(key: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ScramTextError(f"{key} is no base64") from None
