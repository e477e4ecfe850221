"""The columns ingest needs. In/out: DataFrames. Never: a session, I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.contracts.headers import FIELD, KIND, REASON, RECEIVED_AT, RECORD_ID, REPLAY, SOURCE
from spark_apps.columns import flat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADERS = (RECORD_ID, RECEIVED_AT, SOURCE, REPLAY, KIND, REASON, FIELD)


def transform(messages: DataFrame) -> DataFrame:
    """Everything of a message that its row or its rejection tells."""
    return flat(messages, HEADERS)
