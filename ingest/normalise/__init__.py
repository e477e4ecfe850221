"""Foreign message -> contract, pure: what the edge, the Spark jobs, the city and `check-message`
all share."""

from ingest.normalise.clock import ClockLimits, clock_limits
from ingest.normalise.device_clocks import ClockEstimates, Readings
from ingest.normalise.record import (
    Envelope,
    normalise,
    normalise_message,
    partition_key,
    rejected_row,
)

__all__ = [
    "ClockEstimates",
    "ClockLimits",
    "Envelope",
    "Readings",
    "clock_limits",
    "normalise",
    "normalise_message",
    "partition_key",
    "rejected_row",
]
