"""What an approval of a list names: the digest of all that was asked for. Pure.

In: a request. Out: hexadecimal digits. Never: who asked, when or why.
"""

from __future__ import annotations

import hashlib

import msgspec

from bus.contracts.plate_lists import ListCommand

_ENVELOPE = {
    field.name: field.default for field in msgspec.structs.fields(ListCommand)
    if field.name in {
        "version", "author", "command_id", "issuer", "account", "session", "reason", "case",
        "seen_version", "signature", "text_sha256",
    }
}  # fmt: skip
"""Fields that are about the request; all others, also those to come, are the text."""


def list_text_sha256(command: ListCommand) -> str:
    """Of its canonical form, with the SHA-256 of each chunk in it. What stands at its default is
    left out, so that a later version's new field changes no digest."""
    text = msgspec.structs.replace(command, **_ENVELOPE)
    return hashlib.sha256(msgspec.json.encode(text, order="deterministic")).hexdigest()
