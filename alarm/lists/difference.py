"""What a file changes on a list. Pure.

In: the lines of the file, then those in force. Out: how many are added, removed and changed, with
examples. Never: all lines in memory: of each its plate, or the entry of a face, and a number.
"""

from __future__ import annotations

from collections.abc import Iterable

from bus.contracts.plate_lists import FaceLine, ListLine
from bus.domain.list_import import ListDifference

EXAMPLES = 5


class NewLines:
    """The lines of a file, as they come. Invariant: `_texts` has a number for the note and date of
    each plate."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, line: ListLine | FaceLine) -> None:
        """The next one."""
        key, text = _key_and_text(line)
        self._texts[key] = text

    def compared_with(self, in_force: Iterable[ListLine] | Iterable[FaceLine]) -> ListDifference:
        """Once: what is the same is forgotten."""
        new = self._texts
        removed: list[str] = []
        changed: list[str] = []
        removed_count = changed_count = 0
        for line in in_force:
            key, own = _key_and_text(line)
            text = new.pop(key, None)
            if text is None:
                removed_count += 1
                if len(removed) < EXAMPLES:
                    removed.append(key)
            elif text != own:
                changed_count += 1
                if len(changed) < EXAMPLES:
                    changed.append(key)
        return ListDifference(
            added=len(new), removed=removed_count, changed=changed_count,
            added_plates=[plate for plate, _ in zip(new, range(EXAMPLES), strict=False)],
            removed_plates=removed, changed_plates=changed,
        )  # fmt: skip


def _key_and_text(line: ListLine | FaceLine) -> tuple[str, int]:
    """What it is called, and a number for the rest."""
    feature = line.feature if isinstance(line, FaceLine) else b""
    return line.key, hash((line.note, line.date, feature))
