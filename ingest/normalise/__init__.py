"""Foreign message -> contract, pure: what the edge, the Spark jobs, the city and `check-message`
all share."""

from bus.contracts.plates import plate_key, plate_pattern
from ingest.normalise.clock import ClockLimits, clock_limits
from ingest.normalise.identity import bus_id, own_id, uuid7
from ingest.normalise.key import key_of, partition_key
from ingest.normalise.local_time import BadTime, LocalTime, local_time
from ingest.normalise.record import Envelope, normalise, rejected_row

__all__ = [
    "BadTime",
    "ClockLimits",
    "Envelope",
    "LocalTime",
    "bus_id",
    "clock_limits",
    "key_of",
    "local_time",
    "normalise",
    "own_id",
    "partition_key",
    "plate_key",
    "plate_pattern",
    "rejected_row",
    "uuid7",
]
