"""What was proposed of lists and waits for an approval. Pure.

In: records of `state.lists` that are no lists. Out: of each list its newest proposal. Never: an
opinion on what is in force; one that waits longer than `WAITS_MS`.
"""

from __future__ import annotations

from typing import NamedTuple

from bus.contracts.list_proposals import BesideLists, ListProposal, SettledListProposal
from bus.domain.table_versions import TableVersions


class KnownListProposal(NamedTuple):
    """The newest of a list. `waits`: None once it is settled."""

    version: int
    command_id: str
    waits: ListProposal | None


NO_LIST_PROPOSAL = KnownListProposal(0, "", None)


class KnownListProposals:
    """Invariant: `_newest` has of each list id in `_versions` what has the greatest version."""

    def __init__(self) -> None:
        self._versions = TableVersions()
        self._newest: dict[str, KnownListProposal] = {}

    def get(self, list_id: str) -> KnownListProposal:
        """`NO_LIST_PROPOSAL` of a list that never had one."""
        return self._newest.get(list_id, NO_LIST_PROPOSAL)

    def unsettled(self) -> list[ListProposal]:
        """Oldest first, also those whose time is over."""
        found = [one.waits for one in self._newest.values() if one.waits is not None]
        return sorted(found, key=lambda one: (one.decided_at_ms, one.list_id))

    def next_version(self, list_id: str, now_ms: int) -> int:
        """One that wins over all that is known of it."""
        return self._versions.next_version(list_id, now_ms)

    def raise_floor(self, version: int) -> None:
        """What comes from here on has to be newer, and what is older waits no longer: what has
        settled it may be gone."""
        self._versions.raise_floor(version)
        for list_id, known in self._newest.items():
            if known.version <= version:
                self._newest[list_id] = known._replace(waits=None)

    def forget(self, list_id: str) -> None:
        """A tombstone of a list's proposals."""
        if self._versions.forget(list_id):
            self._newest.pop(list_id, None)

    def apply(self, value: BesideLists) -> None:
        """One that is newer than what is known changes it."""
        is_settled = isinstance(value, SettledListProposal)
        if self._versions.accept(value.list_id, value.version, is_removal=is_settled):
            waits = value if isinstance(value, ListProposal) else None
            self._newest[value.list_id] = KnownListProposal(
                value.version, value.command_id, waits
            )
