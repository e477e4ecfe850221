"""What stands beside rules on `state.watchlist`: proposals, and who was an emergency's target.

The key of a proposal is its rule's id with `~proposed` behind it, so that a compacted topic keeps
the text in force. Neither value is a rule to any reader of rules, of this version or an earlier
one: their `op` is none that a rule has.
In/out: frozen structs, JSON with English keys. Never: a rule's id with `~` in it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bus.contracts.commands import WatchCommand

SEPARATOR = "~"
_PROPOSED = f"{SEPARATOR}proposed"
_EMERGENCY = f"{SEPARATOR}emergency"


class WatchProposal(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="proposed"):
    """Waits for an approval; the newest version of a rule's proposals counts. `text` is the request
    that proposed it, without session and signature."""

    rule_id: str
    version: int
    text: WatchCommand
    decided_at_ms: int
    command_id: str

    @property
    def proposed_by(self) -> str:
        """Who may not approve it."""
        return self.text.asked_by


class SettledProposal(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="settled"):
    """Waits no longer. `superseded`: the rule was put or removed without it."""

    rule_id: str
    version: int
    outcome: Literal["approved", "rejected", "withdrawn", "superseded"]
    proposal: int  # the version of what waited
    decided_at_ms: int
    command_id: str
    decided_by: str = ""
    reason: str = ""


class EmergencyTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="emergency"):
    """A target had an emergency rule, and may have no other one until `until_ms` without an
    approval. `visible_to`: as of that rule."""

    target: str  # what `bus.domain.rule_targets` makes of it
    version: int
    rule_id: str
    command_id: str
    until_ms: int
    visible_to: list[str] = []


BesideRules = WatchProposal | SettledProposal | EmergencyTarget


def key_of(value: BesideRules) -> str:
    """Its key on the topic."""
    if isinstance(value, EmergencyTarget):
        units = "".join(f"{SEPARATOR}{unit}" for unit in sorted(value.visible_to))
        return value.target + units + _EMERGENCY
    return proposal_key(value.rule_id)


def proposal_key(of_id: str) -> str:
    """Of what is proposed of a rule, or on its topic of a list."""
    return of_id + _PROPOSED


def id_of_proposal_key(key: str) -> str:
    """The id of the rule or list; empty of another key."""
    return key.removesuffix(_PROPOSED) if key.endswith(_PROPOSED) else ""


_DECODER: msgspec.json.Decoder[BesideRules] = msgspec.json.Decoder(BesideRules)


def beside_rules(value: bytes | None) -> BesideRules | None:
    """None of what is none of these."""
    try:
        return _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
