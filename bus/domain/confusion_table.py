"""A table of misreadings that rules go by: the packaged one, or a site's own. Pure.

In: counts, the text of a file. Out: a table with its version, its prices, the text of a file.
Never: the file itself (`bus.confusion_file`); counting (`confusion_fit`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from weakref import WeakValueDictionary

import msgspec

from bus.domain.misreading_prices import MisreadingPrices, prices_of
from bus.domain.plate_confusion import BANDS, ConfusionCounts, counts_of, text_of
from bus.domain.plate_confusion_tables import FIT

FORMAT = "confusion/1"
MAX_FILE_BYTES = 1024 * 1024
_MAX_COUNT = 10**12
_MAX_ROWS = 1_000
_VERSION_CHARACTERS = 12
_TABLES = 4
"""Whose prices are kept in a process: a site has one, and an earlier one for a moment."""


class ConfusionTableError(ValueError):
    """A file that is no table; the text says why."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ConfusionTable:
    """`version`: by its content; empty for the packaged one. There is one of a version in a process
    (`confusion_table`): each record looks several things up by it, and an identity is compared
    sooner than a version."""

    version: str
    counts: ConfusionCounts

    @property
    def prices(self) -> MisreadingPrices:
        """Made once per process."""
        return _prices(self)

    def __reduce__(self) -> str | tuple[object, ...]:
        """The packaged one by its name: every process has it, and makes its prices once."""
        return "PACKAGED" if self is PACKAGED else (confusion_table, (self.version, self.counts))


_in_use: WeakValueDictionary[str, ConfusionTable] = WeakValueDictionary()


def confusion_table(version: str, counts: ConfusionCounts) -> ConfusionTable:
    """The one of this version."""
    return _in_use.setdefault(version, ConfusionTable(version, counts))


PACKAGED = confusion_table("", FIT)
ReadConfusion = Callable[[], ConfusionTable]
"""The table that is in force when it is asked for."""


def packaged() -> ConfusionTable:
    """Where a site has none of its own, or nobody says which site it is."""
    return PACKAGED


class ConfusionFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a site's file says. `confirmed`, `false`: alarms that it rests on, beside the packaged
    counts; `letters`: of their plates. Rows and `inserted` as `counts_of` reads them."""

    format: str = FORMAT
    fitted_at: str = ""
    confirmed: int = 0
    false: int = 0
    letters: int = 0
    plates: int
    lost: int
    exact: int
    rows: dict[str, str]
    inserted: str
    right: tuple[int, ...]
    wrong: tuple[int, ...]


def file_of(
    counts: ConfusionCounts, *, fitted_at: str, confirmed: int, false: int, letters: int
) -> bytes:
    """A file with these counts."""
    found = ConfusionFile(
        fitted_at=fitted_at, confirmed=confirmed, false=false, letters=letters,
        plates=counts.plates, lost=counts.lost, exact=counts.exact,
        rows={true: text_of(row) for true, row in sorted(counts.rows.items())},
        inserted=text_of(counts.inserted), right=counts.right, wrong=counts.wrong,
    )  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


def table_of(text: bytes) -> ConfusionTable:
    """Of a file. Raises `ConfusionTableError`."""
    if len(text) > MAX_FILE_BYTES:
        raise ConfusionTableError(f"longer than {MAX_FILE_BYTES} bytes")
    try:
        found = msgspec.json.decode(text, type=ConfusionFile)
        if found.format != FORMAT:
            raise ConfusionTableError(f"its format is {found.format!r}, and {FORMAT!r} is known")
        rows = {true: counts_of(row) for true, row in found.rows.items()}
        inserted = counts_of(found.inserted)
    except (msgspec.DecodeError, ValueError, IndexError, RecursionError) as error:
        raise ConfusionTableError(f"no table of misreadings: {error}") from error
    counts = ConfusionCounts(
        found.plates, found.lost, found.exact, rows, inserted, found.right, found.wrong
    )
    _check(counts)
    return confusion_table(sha256(text).hexdigest()[:_VERSION_CHARACTERS], counts)


def _check(counts: ConfusionCounts) -> None:
    every = [*counts.inserted.values(), *counts.right, *counts.wrong]
    every += [count for row in counts.rows.values() for count in row.values()]
    if not all(0 <= count <= _MAX_COUNT for count in every):
        raise ConfusionTableError("a count is below 0, or larger than any that was counted")
    if any(len(true) != 1 for true in counts.rows) or not 0 < len(counts.rows) <= _MAX_ROWS:
        raise ConfusionTableError("each row is that of one character, and there is at least one")
    if len(counts.right) != BANDS or len(counts.wrong) != BANDS:
        raise ConfusionTableError(f"right and wrong have {BANDS} numbers each")
    if not all(row.get(true, 0) for true, row in counts.rows.items()):
        raise ConfusionTableError("a character was never read right: nothing can be said of it")


@lru_cache(maxsize=_TABLES)
def _prices(table: ConfusionTable) -> MisreadingPrices:
    return prices_of(table.counts)
