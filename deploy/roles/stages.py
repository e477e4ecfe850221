"""The stages of the pipeline that our own applications are, for the account and for the watch.

In: settings. Out: which process does the work of which stage. Never: Spark; the watch must stay
small.
"""

from __future__ import annotations

from dataclasses import replace

from bus.contracts.topics import INGESTED_TOPICS, METER_LATENCY, METER_QUALITY
from bus.domain.kinds import MATCHED_TOPICS
from deploy.roles.table import ALARM_STREAMS, STREAMS, driver_name
from monitor.watch.driver_pages import StageTopics
from spark_apps.settings import ALARMS, StreamsSettings

INGEST = "ingest"
"""The stage whose positions are in the record store; those of the others are committed offsets."""
METERS = "meters"
"""The driver of both that read meters."""
STAGES = (
    StageTopics(INGEST, STREAMS, INGESTED_TOPICS, driver_name(INGEST)),
    StageTopics(ALARMS, STREAMS, MATCHED_TOPICS, driver_name(ALARMS)),
    StageTopics("quality", STREAMS, (METER_QUALITY,), driver_name(METERS)),
    StageTopics("latency", STREAMS, (METER_LATENCY,), driver_name(METERS)),
)  # fmt: skip
"""As one driver does them all."""


def stages_of(streams: StreamsSettings) -> list[StageTopics]:
    """The stages that these settings want, each with the process that does its work."""
    two = streams.drivers == 2
    return [
        replace(one, role=ALARM_STREAMS) if two and one.stage == ALARMS else one
        for one in STAGES
        if one.stage in streams.applications
    ]
