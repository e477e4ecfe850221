"""What is put into HBase at once is bounded by rows and by bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.store.hbase.connection import PUT_BYTES, ROWS_PER_CALL, Row, put_slices

SIZES = st.sampled_from([0, 100, 600_000, PUT_BYTES - 30, PUT_BYTES + 1])


def bytes_of(rows: list[Row]) -> int:
    return sum(len(key) + sum(len(c) + len(v) for c, v in cells.items()) for key, cells in rows)


@given(st.lists(st.tuples(st.integers(1, 900), SIZES), max_size=6))
def test_every_row_once_in_order_and_within_both_bounds(runs: list[tuple[int, int]]) -> None:
    """What broke: only rows were counted; a thousand of 512 KiB ended a Thrift server."""
    values = {size: bytes(size) for _, size in runs}
    rows: list[Row] = [
        (b"key-%d" % number, {b"d:json": values[size]})
        for count, size in runs
        for number in range(count)
    ]
    slices = [list(some) for some in put_slices(rows)]
    assert [row for some in slices for row in some] == rows
    for some in slices:
        assert 0 < len(some) <= ROWS_PER_CALL
        assert len(some) == 1 or bytes_of(some) <= PUT_BYTES
