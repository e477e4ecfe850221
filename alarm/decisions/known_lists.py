"""What has been decided of lists of plates, and which chunks of lines stand there. Pure.

In: records of `state.lists`. Out: of each list its newest record, and what is proposed of it; of
each chunk its hash and when it was written. Never: lines: five million are some sixty megabytes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from alarm.decisions.known_list_proposals import KnownListProposals
from alarm.decisions.list_states import ListState
from bus.client.model import ConsumedRecord
from bus.contracts.list_proposals import ListProposal, beside_lists
from bus.contracts.plate_lists import ListRecord, is_chunk_key
from bus.contracts.proposals import id_of_proposal_key
from bus.domain.list_chunks import sha256_of
from bus.domain.table_versions import TableVersions

_decode = msgspec.json.Decoder(ListRecord).decode


class KnownChunk(NamedTuple):
    """One that stands on the topic."""

    sha256: str
    written_ms: int


NO_LIST = ListRecord(list_id="", op="remove")


class DecidedLists:
    """Invariant: `lists` has the record with the greatest version of each list in `versions`."""

    def __init__(self) -> None:
        self.versions = TableVersions()
        self.lists: dict[str, ListRecord] = {}
        self.proposals = KnownListProposals()

    @property
    def in_force(self) -> dict[str, ListRecord]:
        """By list id."""
        return {key: record for key, record in self.lists.items() if record.op == "put"}

    def on_decided(self, record: ListRecord) -> bool:
        """One that is newer than what is known changes it; whether it was."""
        if record.op == "floor":
            self.versions.raise_floor(record.version)
            self.proposals.raise_floor(record.version)
            return False
        is_removal = record.op == "remove"
        if not self.versions.accept(record.list_id, record.version, is_removal=is_removal):
            return False
        self.lists[record.list_id] = record
        return True

    def forget(self, list_id: str) -> bool:
        """A tombstone; whether it took the list away."""
        if not self.versions.forget(list_id):
            return False
        self.lists.pop(list_id, None)
        return True

    def get(self, list_id: str) -> ListRecord:
        """`NO_LIST` of one that was never decided on, or was forgotten."""
        return self.lists.get(list_id, NO_LIST)

    def apply_proposal(self, key: str, value: bytes | None) -> bool:
        """Of a record that is a proposal's by its key, whatever its value; whether it was one."""
        list_id = id_of_proposal_key(key)
        if not list_id:
            return False
        if value is None:
            self.proposals.forget(list_id)
        elif (found := beside_lists(value)) is not None and found.list_id == list_id:
            self.proposals.apply(found)
        return True

    def unsettled(self) -> list[ListProposal]:
        """Proposals that nobody has settled, oldest first: the decision that settles one names it,
        also where the proposal's own end is not there."""
        return [
            one for one in self.proposals.unsettled()
            if self.get(one.list_id).proposal < one.version
        ]  # fmt: skip

    def waiting(self, now_ms: int) -> list[ListProposal]:
        """Those whose time is not over."""
        return [one for one in self.unsettled() if now_ms < one.ends_ms]

    def waiting_for(self, list_id: str, now_ms: int) -> ListProposal | None:
        """What waits of one list."""
        waits = self.proposals.get(list_id).waits
        if waits is None or now_ms >= waits.ends_ms:
            return None
        return waits if self.get(list_id).proposal < waits.version else None


class KnownLists(DecidedLists):
    """Invariant: `chunks` has the last value of each key of a chunk, without those that a tombstone
    took."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: dict[str, KnownChunk] = {}

    def state_of(self, list_id: str, now_ms: int) -> ListState:
        """Where it is in its life."""
        record, waits = self.lists.get(list_id), self.waiting_for(list_id, now_ms) is not None
        if record is not None and record.op == "put":
            return ListState.CHANGING if waits else ListState.IN_FORCE
        if waits:
            return ListState.PROPOSED
        return ListState.ABSENT if record is None else ListState.ENDED

    def apply(self, record: ConsumedRecord) -> None:
        """The next one; what is not ours changes nothing."""
        key = (record.key or b"").decode("utf-8", "replace")
        if is_chunk_key(key):
            if record.value is None:
                self.chunks.pop(key, None)
            else:
                self.chunks[key] = KnownChunk(sha256_of(record.value), record.timestamp_ms)
        elif self.apply_proposal(key, record.value):
            pass
        elif record.value is None:
            self.forget(key)
        elif (found := list_record_of(record)) is not None:
            self.on_decided(found)


def list_record_of(record: ConsumedRecord) -> ListRecord | None:
    """None of what is no record of a list."""
    try:
        return _decode(record.value or b"")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
