"""Whose configuration it is, and what to do with a key: Kafka's numbers on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
BROKER_RESOURCES = (BROKER, BROKER_LOGGER)
DYNAMIC_TOPIC_CONFIG = 1
"""ConfigSource of a value that is set for this topic."""
DEFAULT_CONFIG = 5
"""ConfigSource of a value that nobody has set."""


class AlterConfigOp(IntEnum):
    """What to do with a configuration key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


ConfigChanges = Sequence[tuple[str, AlterConfigOp, str | None]]
