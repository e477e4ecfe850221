"""The stages of the pipeline that our own applications are, for the account and for the watch.

In: nothing. Out: `STAGES`. Never: Spark; the watch must stay small.
"""

from __future__ import annotations

from bus.contracts.topics import DATA_TOPICS, METER_SENT, QUARANTINE_RECORDS
from bus.domain.kinds import MATCHED_TOPICS
from monitor.watch.judge import StageTopics

WATCHLIST = "watchlist"
STAGES = (
    StageTopics("ingest", "streams", (*DATA_TOPICS, QUARANTINE_RECORDS)),
    StageTopics(WATCHLIST, "streams", MATCHED_TOPICS),
    StageTopics("quality", "streams", (METER_SENT,)),
)
