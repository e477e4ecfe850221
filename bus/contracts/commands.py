"""Commands of operators. Key of the message on the topic = `rule_id`; the newest one per key is the
state.

In/out: frozen structs, JSON with English keys. Never: matching (that is `alarm.rules`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

MatchedKind = Literal["vehicle", "face"]
"""The kinds of data whose attributes a rule may name."""
USUAL_KIND: MatchedKind = "vehicle"
"""What a rule is about that does not say."""


class WatchCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """`control.watchlist`: put a target on the watch list, change it, or take it off (布控 / 撤控).

    `match` is a conjunction: English attribute of `bus.contracts.keys` -> accepted values (any of
    them);
    `plate_number` compares normalised plates; `~` before one takes its misreadings, too. `op` is
    explicit because a tombstone parses to null; `floor` is no rule: no command up to its version is
    accepted any more.
    """

    rule_id: str
    op: Literal["put", "remove", "floor"]
    version: int  # epoch ms of the decision; a later version wins in any order of arrival
    kind: MatchedKind = USUAL_KIND
    name: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    match: dict[str, list[str]] = {}
    valid_from_ms: int = 0
    valid_until_ms: int = 0  # 0 = until removed
    author: str = ""
    note: str = ""
