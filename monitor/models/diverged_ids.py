"""Which rows of this site's store came from records that only this site had. Pure.

In: parts of `control.mirror-tails`. Out: the site epoch of a row's id, how many there are of each.
Never: more ids than `MAX_DIVERGED_IDS`; those beyond it are counted, and their rows are not marked.
"""

from __future__ import annotations

from collections import defaultdict

from bus.contracts.diverged_ranges import DivergedRange

MAX_DIVERGED_IDS = 1_000_000
"""Some 200 MB; ten minutes of a lost site with 1,700 records a second."""


class DivergedIds:
    """Invariant: `_held` counts the ids of `_epochs` by their site epoch, the newest of each id."""

    def __init__(self, most: int = MAX_DIVERGED_IDS) -> None:
        self._most = most
        self._epochs: dict[str, int] = {}
        self._held: defaultdict[int, int] = defaultdict(int)
        self._not_held: dict[bytes, tuple[int, int]] = {}

    def apply(self, part: DivergedRange) -> None:
        """A part, perhaps once more: a command that was killed says it again."""
        not_held = 0
        for record_id in part.ids:
            known = self._epochs.get(record_id, 0)
            if not known and len(self._epochs) >= self._most:
                not_held += 1
            elif known < part.epoch:
                self._epochs[record_id] = part.epoch
                self._held[part.epoch] += 1
                if known:
                    self._held[known] -= 1
        if not_held:
            self._not_held[part.key] = part.epoch, not_held

    def epoch_of(self, record_id: str) -> int:
        """The site epoch in whose tail it was; 0: in none, as far as is held."""
        return self._epochs.get(record_id, 0)

    @property
    def not_held(self) -> int:
        """Records whose rows are not marked, since there are too many."""
        return sum(count for _, count in self._not_held.values())

    def counts(self) -> dict[int, int]:
        """Records by site epoch, newest first, whether their ids are held or not."""
        found = defaultdict(int, self._held)
        for epoch, count in self._not_held.values():
            found[epoch] += count
        return {epoch: found[epoch] for epoch in sorted(found, reverse=True) if found[epoch]}
