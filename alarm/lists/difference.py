"""What a file changes on a list. Pure.

In: the lines of the file, then those in force. Out: how many are added, removed and changed, with
examples. Never: all lines in memory: of each its plate and a number.
"""

from __future__ import annotations

from collections.abc import Iterable

from bus.contracts.plate_lists import ListLine
from bus.domain.list_import import ListDifference

EXAMPLES = 5


class NewLines:
    """The lines of a file, as they come. Invariant: `_texts` has a number for the note and date of
    each plate."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, line: ListLine) -> None:
        """The next one."""
        self._texts[line.plate] = hash((line.note, line.date))

    def compared_with(self, in_force: Iterable[ListLine]) -> ListDifference:
        """Once: what is the same is forgotten."""
        new = self._texts
        removed: list[str] = []
        changed: list[str] = []
        removed_count = changed_count = 0
        for line in in_force:
            text = new.pop(line.plate, None)
            if text is None:
                removed_count += 1
                if len(removed) < EXAMPLES:
                    removed.append(line.plate)
            elif text != hash((line.note, line.date)):
                changed_count += 1
                if len(changed) < EXAMPLES:
                    changed.append(line.plate)
        return ListDifference(
            added=len(new), removed=removed_count, changed=changed_count,
            added_plates=[plate for plate, _ in zip(new, range(EXAMPLES), strict=False)],
            removed_plates=removed, changed_plates=changed,
        )  # fmt: skip
