"""Rows of Python as an Arrow batch, for what a task hands on (`mapInArrow`).

In: a schema in Spark's words, rows. Out: a `pyarrow.RecordBatch`. Never: a type that it does not
know. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def record_batch(schema: str, rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    """`schema`: `name type, …` with the types string, binary, int and bigint. Raises `KeyError` for
    another one, `ValueError` for a row of another length."""
    import pyarrow as pa  # here: what only judges single messages stays light

    types = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "bigint": pa.int64()}
    fields = [field.split() for field in schema.split(",")]
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [
        pa.array(column, type=types[kind])
        for column, (_, kind) in zip(columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])
