"""How the members of a group share its partitions, and the owners in each generation.

In: assignments and owned partitions of members. Out: shares, and a complaint when two members of a
generation own one partition. Never: an exchange with a broker (`member`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from struct import Struct

Share = list[tuple[str, int]]
_PAIR = Struct(">Hh")


class Membership(Enum):
    """EAGER: members revoke everything at each rebalance. STATIC: a member that restarts under its
    instance id keeps its share (KIP-345). COOPERATIVE: a member keeps reading its partitions, and
    revoked ones get a new owner only one generation later (KIP-429)."""

    EAGER = "range"
    STATIC = "static"
    COOPERATIVE = "cooperative-sticky"

    @property
    def protocol(self) -> str:
        """The assignor's name; all members of a world have the same."""
        return "range" if self is Membership.STATIC else self.value


def spread(partitions: Share, members: Iterable[str]) -> dict[str, Share]:
    """Assigns all partitions round-robin."""
    ordered = sorted(members)
    return {member: partitions[place :: len(ordered)] for place, member in enumerate(ordered)}


def spread_without_claims(
    partitions: Share, owned: Mapping[str, Share]
) -> dict[str, Share]:
    """As `spread`, but partitions that another member still owns stay unassigned in this
    generation."""
    owners = {pair: member for member, pairs in owned.items() for pair in pairs}
    return {
        member: [pair for pair in share if owners.get(pair, member) == member]
        for member, share in spread(partitions, owned).items()
    }


class Ownership:
    """The assignments of all members of a group. Invariant: a partition has one owner in a
    generation, or a complaint was recorded."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._owners: dict[int, dict[tuple[str, int], str]] = {}
        self._shared_out: dict[int, set[tuple[str, int]]] = {}
        self._newest = -1
        """The newest generation that a member received. A higher one may have been decided, and lost with
        its coordinator before any member got it: static members then continue in the previous
        one."""

    def shared_out(self, generation: int, shares: Iterable[Share]) -> None:
        """Records the assignment by a generation's leader."""
        self._shared_out[generation] = {pair for share in shares for pair in share}

    def owns(self, generation: int, member: str, share: Share) -> None:
        """Records that a member received its assignment."""
        self._newest = generation
        owners = self._owners.setdefault(generation, {})
        before = {pair for pair, owner in owners.items() if owner == member}
        if before and before != set(share):
            self._complain(
                f"{member} is assigned {share} in generation {generation}, and was {before}"
            )
        for pair in share:
            owner = owners.setdefault(pair, member)
            if owner != member:
                self._complain(
                    f"{pair[0]}-{pair[1]} has two owners in generation {generation}: {owner}, "
                    f"{member}"
                )

    def without_owner(self) -> list[tuple[str, int]]:
        """Partitions of the newest generation whose assigned member has not appeared."""
        shared_out = self._shared_out.get(self._newest, set())
        return sorted(shared_out - set(self._owners.get(self._newest, {})))


def subscription(topics: Iterable[str], owned: Share | None = None) -> bytes:
    """The consumer protocol's subscription, version 0: topics; what is owned as user data."""
    names = [name.encode() for name in topics]
    packed = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    data = pack_share(owned or [])
    size = len(data).to_bytes(4, "big") if data else b"\xff\xff\xff\xff"
    return b"\x00\x00" + len(names).to_bytes(4, "big") + packed + size + data


def owned_in(packed: bytes) -> Share:
    """The owned partitions in a member's subscription."""
    at = 6
    for _ in range(int.from_bytes(packed[2:6], "big")):
        at += 2 + int.from_bytes(packed[at : at + 2], "big")
    return unpack_share(packed[at + 4 :])


def pack_share(share: Share) -> bytes:
    """A member's partitions; opaque to the coordinator."""
    return b"".join(
        _PAIR.pack(partition, len(topic)) + topic.encode() for topic, partition in share
    )


def unpack_share(packed: bytes) -> Share:
    """Decodes what `pack_share` has encoded."""
    share: Share = []
    at = 0
    while at < len(packed):
        partition, length = _PAIR.unpack_from(packed, at)
        at += _PAIR.size
        share.append((packed[at : at + length].decode(), partition))
        at += length
    return share
