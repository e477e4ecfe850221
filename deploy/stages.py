"""The stages of the pipeline that our own applications are, for the account and for the watch.

In: nothing. Out: `STAGES`. Never: Spark; the watch must stay small.
"""

from __future__ import annotations

from bus.contracts.topics import (
    DATA_TOPICS,
    METER_LATENCY,
    METER_QUALITY,
    METER_SENT,
    QUARANTINE_RECORDS,
)
from bus.domain.kinds import MATCHED_TOPICS
from monitor.watch.judge import StageTopics

INGEST = "ingest"
"""The stage whose positions are in the record store; those of the others are committed offsets."""
STAGES = (
    StageTopics(INGEST, "streams", (*DATA_TOPICS, QUARANTINE_RECORDS, METER_SENT)),
    StageTopics("watchlist", "streams", MATCHED_TOPICS),
    StageTopics("quality", "streams", (METER_QUALITY,)),
    StageTopics("latency", "streams", (METER_LATENCY,)),
)
