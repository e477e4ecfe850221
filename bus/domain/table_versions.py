"""Which record of a key counts on a topic that is a table: versions decide, not offsets. Pure.

In: versions of puts, removals, floors and tombstones in the order of their topic. Out: whether a
command changes the table; the version that a new one needs. Never: a removed key that comes back by
a command from before its removal, also where a cleaner has taken the removal away; a clock.
"""

from __future__ import annotations


class TableVersions:
    """Invariant: `_ranks` has per key twice the greatest version that was accepted, plus one if
    that is a removal: of two commands of one version the removal wins, of two puts the later one,
    which is the one that a cleaner leaves. What is not in it was never accepted, or is at or below
    `floor`.
    """

    __slots__ = ("_ranks", "floor")

    def __init__(self) -> None:
        self.floor = -1
        """Commands of at most this version change nothing any more; -1: there is no floor."""
        self._ranks: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._ranks

    def __len__(self) -> int:
        return len(self._ranks)

    def accept(self, key: str, version: int, *, is_removal: bool) -> bool:
        """Take a command; False if it is too old, or a newer one is known."""
        rank = 2 * version + is_removal
        if version <= self.floor or rank < self._ranks.get(key, rank):
            return False
        self._ranks[key] = rank
        return True

    def raise_floor(self, version: int) -> None:
        """What comes from here on has to be newer. What is in force stays in force."""
        self.floor = max(self.floor, version)

    def forget(self, key: str) -> bool:
        """A tombstone; whether the key was known and is not any more. It says that a command at or
        below the floor is out of date; anybody may write one, so that a newer command stays."""
        if self._ranks.get(key, 2 * self.floor + 2) // 2 > self.floor:
            return False
        del self._ranks[key]
        return True

    def next_version(self, key: str, now_ms: int) -> int:
        """A version that wins over all that is known, even when a clock went back."""
        return max(now_ms, self._ranks.get(key, -2) // 2 + 1, self.floor + 1)
