"""Foreign message -> contract, pure: what the edge, the Spark jobs, the city and `check-message`
all share."""

from ingest.normalise.clock import ClockLimits, clock_limits
from ingest.normalise.record import Envelope, normalise, partition_key, rejected_row

__all__ = [
    "ClockLimits",
    "Envelope",
    "clock_limits",
    "normalise",
    "partition_key",
    "rejected_row",
]
