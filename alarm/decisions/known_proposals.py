"""What waits for an approval, what was settled last, and which targets had an emergency. Pure.

In: records of `state.watchlist` that are no rules. Out: of each rule its proposal, whole while it
waits. Never: more than `check_room` allows of those that wait; an opinion on what is in force.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bus.contracts.command_codes import TOO_MANY_PROPOSALS
from bus.contracts.proposals import (
    BesideRules,
    EmergencyTarget,
    SettledProposal,
    WatchProposal,
)
from bus.domain.rule_check import RuleError
from bus.domain.table_versions import TableVersions
from bus.domain.visibility import Viewer, may_see

MAX_WAITING = 1_000
MAX_WAITING_BYTES = 16 << 20  # the decider holds what waits


class KnownProposal(NamedTuple):
    """The newest of a rule. `waits`: what is to be approved, encoded; None once it is settled."""

    version: int
    command_id: str
    waits: bytes | None

    def proposal(self) -> WatchProposal | None:
        """What waits."""
        return None if self.waits is None else _decode(self.waits)


NO_PROPOSAL_KNOWN = KnownProposal(0, "", None)


class KnownProposals:
    """Invariant: `_newest` has of each rule id in `_versions` what has the greatest version;
    `_waiting_bytes` is the length of all that waits."""

    def __init__(self) -> None:
        self._versions = TableVersions()
        self._newest: dict[str, KnownProposal] = {}
        self._emergencies: dict[str, dict[tuple[str, ...], EmergencyTarget]] = {}
        self._waiting = 0
        self._waiting_bytes = 0

    def get(self, rule_id: str) -> KnownProposal:
        """`NO_PROPOSAL_KNOWN` of a rule that never had one."""
        return self._newest.get(rule_id, NO_PROPOSAL_KNOWN)

    def newest(self) -> Iterable[KnownProposal]:
        """Of every rule that has one, settled or not."""
        return self._newest.values()

    def next_version(self, rule_id: str, now_ms: int) -> int:
        """One that wins over all that is known of it."""
        return self._versions.next_version(rule_id, now_ms)

    def next_emergency_version(self, target: str, now_ms: int) -> int:
        """The same of a target."""
        newest = max((one.version for one in self._emergencies_of(target)), default=-1)
        return max(now_ms, newest + 1, self._versions.floor + 1)

    def emergencies(self) -> list[EmergencyTarget]:
        """Of each target, and the units that see them, the newest."""
        return [one for target in self._emergencies for one in self._emergencies_of(target)]

    def has_emergency(self, one: EmergencyTarget) -> bool:
        """Whether this one, or a newer one of its target, is known."""
        known = self._emergencies.get(one.target, {}).get(_units(one))
        return known is not None and known.version >= one.version

    def recent_emergency(
        self, targets: Iterable[str], now_ms: int, command_id: str, viewer: Viewer
    ) -> EmergencyTarget | None:
        """Of one of these, which may have no other one yet, as far as who asks sees it; one by
        this very command is none."""
        for target in sorted(targets):
            for known in self._emergencies_of(target):
                is_recent = known.until_ms > now_ms and known.command_id != command_id
                if is_recent and may_see(viewer, known.visible_to):
                    return known
        return None

    def check_room(self) -> None:
        """Raises `RuleError` where too much waits already."""
        if self._waiting >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES:
            raise RuleError(
                "", f"{self._waiting} proposals wait already: approve or reject some first",
                TOO_MANY_PROPOSALS,
            )  # fmt: skip

    def raise_floor(self, version: int) -> None:
        """What comes from here on has to be newer, and what is older waits no longer: what has
        settled it may be gone."""
        self._versions.raise_floor(version)
        for rule_id, known in self._newest.items():
            if known.waits is not None and known.version <= version:
                self._count(known, -1)
                self._newest[rule_id] = known._replace(waits=None)

    def forget(self, rule_id: str) -> None:
        """A tombstone of a rule's proposals."""
        if self._versions.forget(rule_id):
            self._count(self._newest.pop(rule_id, NO_PROPOSAL_KNOWN), -1)

    def apply(self, value: BesideRules) -> None:
        """One that is newer than what is known changes it."""
        if isinstance(value, EmergencyTarget):
            of_target = self._emergencies.setdefault(value.target, {})
            known = of_target.get(_units(value))
            if known is None or value.version >= known.version:
                of_target[_units(value)] = value
        elif self._versions.accept(
            value.rule_id, value.version, is_removal=isinstance(value, SettledProposal)
        ):
            waits = msgspec.json.encode(value) if isinstance(value, WatchProposal) else None
            self._count(self.get(value.rule_id), -1)
            newest = KnownProposal(value.version, value.command_id, waits)
            self._newest[value.rule_id] = newest
            self._count(newest, 1)

    def _emergencies_of(self, target: str) -> list[EmergencyTarget]:
        return list(self._emergencies.get(target, {}).values())

    def _count(self, one: KnownProposal, sign: int) -> None:
        if one.waits is not None:
            self._waiting += sign
            self._waiting_bytes += sign * len(one.waits)


def _units(one: EmergencyTarget) -> tuple[str, ...]:
    """An emergency that some units see is another one than that of others."""
    return tuple(sorted(one.visible_to))


_decode = msgspec.json.Decoder(WatchProposal).decode
