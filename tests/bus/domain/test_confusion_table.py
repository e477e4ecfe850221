"""The file of a site's table of misreadings: what it says, and what is none."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from bus.domain.confusion_table import (
    MAX_FILE_BYTES,
    PACKAGED,
    ConfusionTableError,
    confusion_table,
    file_of,
    table_of,
)
from bus.domain.misreading_prices import prices_of
from bus.domain.plate_confusion_tables import FIT, HELD_OUT


def file() -> bytes:
    return file_of(HELD_OUT, fitted_at="2026-11-30T10:00:00+08:00", confirmed=3, false=1, letters=22)


def changed(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(file()) | fields)


def test_a_file_has_the_counts_and_a_version_of_its_own() -> None:
    table = table_of(file())
    assert table.counts == HELD_OUT
    assert len(table.version) == 12
    assert table_of(changed(letters=23)).version != table.version


def test_tables_are_equal_by_their_version_also_in_another_process() -> None:
    table = table_of(file())
    assert pickle.loads(pickle.dumps(table)) is table != PACKAGED
    assert len({table, table_of(file()), PACKAGED}) == 2
    assert PACKAGED.prices == prices_of(FIT)


def test_the_packaged_table_is_in_every_process_and_is_not_sent() -> None:
    """Rules go to executors with each change; its counts were in each broadcast."""
    sent = pickle.dumps([PACKAGED, PACKAGED])
    assert pickle.loads(sent)[0] is PACKAGED
    assert len(sent) < 200


def test_prices_are_made_once() -> None:
    assert confusion_table("x", FIT).prices is confusion_table("x", FIT).prices


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no table"), (b"{}", "no table"), (b"\xff", "no table"), (b"[" * 5_000, "no table"),
        (changed(format="confusion/9"), "confusion/1"), (changed(rows={}), "at least one"),
        (changed(rows={"DD": "D:1"}), "one character"), (changed(rows={"D": "0:5"}), "never read right"),
        (changed(rows={"D": "D:-1"}), "below 0"), (changed(rows={"D": "D:x"}), "no table"),
        (changed(rows={"D": "D:9" + "9" * 20}), "larger"), (changed(right=[1, 2]), "right and wrong"),
        (b" " * (MAX_FILE_BYTES + 1), "longer"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused_with_the_reason(text: bytes, why: str) -> None:
    with pytest.raises(ConfusionTableError, match=why):
        table_of(text)
