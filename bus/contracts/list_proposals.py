"""What stands beside lists on `state.lists`: what was proposed of one and waits for an approval.

The key is made as that of a rule's proposal (`proposals.proposal_key`), so that a compacted topic
keeps the list in force. The chunks that a proposed base names stand on the topic already; a
proposed change has its lines with it. No reader of lists takes either value for a list: their `op`
is none that one has.
In/out: frozen structs, JSON with English keys. Never: a list's id with `~` in it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bus.contracts.plate_lists import ListCommand, NamedChunk, base_key

WAITS_MS = 30 * 24 * 3_600_000
"""What nobody has settled by then waits no longer, and its lines go."""


class ListProposal(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="proposed"):
    """Waits for an approval; the newest version of a list's proposals counts. `text` is the request
    that proposed it, without session and signature."""

    list_id: str
    version: int
    text: ListCommand
    decided_at_ms: int
    command_id: str

    @property
    def proposed_by(self) -> str:
        """Who may not approve it."""
        return self.text.asked_by

    @property
    def ends_ms(self) -> int:
        """From then on it waits no longer."""
        return self.decided_at_ms + WAITS_MS

    @property
    def named_keys(self) -> dict[str, NamedChunk]:
        """Key -> chunk of the base that it names."""
        text = self.text
        return {base_key(text.list_id, text.base, one.number): one for one in text.chunks}


class SettledListProposal(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="settled"
):
    """Waits no longer. `superseded`: the list was put, changed or ended without it."""

    list_id: str
    version: int
    outcome: Literal["approved", "rejected", "withdrawn", "superseded"]
    proposal: int  # the version of what waited
    decided_at_ms: int
    command_id: str
    decided_by: str = ""
    reason: str = ""


BesideLists = ListProposal | SettledListProposal


_DECODER: msgspec.json.Decoder[BesideLists] = msgspec.json.Decoder(BesideLists)


def beside_lists(value: bytes | None) -> BesideLists | None:
    """None of what is neither."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
