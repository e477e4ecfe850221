"""`control.accounts`: all accounts of a console, sealed for the consoles that have the same key.

In/out: a frozen struct, JSON. Never: a name or a password's hash that can be read, the key.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

SNAPSHOT_KEY = "accounts"
"""The record's key: the topic is compacted to the newest."""
MAX_SEALED_CHARS = 1_000_000
"""A record of it fits into a batch of the brokers' default size: some 4,000 accounts."""
_Base64 = Annotated[str, Meta(max_length=MAX_SEALED_CHARS)]


class SealedAccounts(msgspec.Struct, frozen=True, kw_only=True):
    """`version`: when it was made, in epoch ms, larger than any before. `nonce`, `sealed`: base64;
    AES-GCM over the accounts, with the version as associated data."""

    version: Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
    nonce: _Base64
    sealed: _Base64


_DECODER = msgspec.json.Decoder(SealedAccounts)


def decode_snapshot(value: bytes | None) -> SealedAccounts | None:
    """None for what is none."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
