"""The additional workload of a world, drawn from its seed: topics with retention, compaction,
growth, creation and deletion in use, throttled moves, two log directories, other kinds of members.

In: a random generator. Out: the workload and the configuration it needs. Never: all of it in every
world, which would double the cost; each world has about a third.

Not drawn: the cleaner of compacted topics (`table_story` has worlds of its own for it: here they keep
all they have), and a topic created again under the name of a deleted one while clients use it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.cluster import TWO_DIRECTORIES
from tests.simulation.membership import Membership

TOPICS = {"orders": 3, "events": 2}
TOPIC_CONFIGS = {"segment.ms": "5000"}
COMPACTED = "orders"

AGED = "aged"
"""The topic whose old records are deleted. Its producer is not idempotent: a broker may lose, with
the records, the state needed to recognise a duplicate batch."""

RETENTION_MS = 8_000
RETENTION = {"segment.ms": "2000", "retention.ms": str(RETENTION_MS)}
RETENTION_PROPERTIES = {"log.retention.check.interval.ms": "3000"}

SHARE = 0.3
"""Share of the worlds that have each of them."""
TWO_DIRECTORIES_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Workload:
    """The workload of one world. `short_lived`: topics that are deleted while clients use them;
    `cleaned`: compacted topics are cleaned, never drawn (`table_story`)."""

    retention: bool = False
    compacted: bool = False
    growth: bool = False
    short_lived: bool = False
    throttled: bool = False
    two_directories: bool = False
    cleaned: bool = False
    membership: Membership = Membership.EAGER

    @property
    def topics(self) -> dict[str, int]:
        """The topics of a world and how many partitions they have at first."""
        return TOPICS | ({AGED: 1} if self.retention else {})

    @property
    def properties(self) -> dict[str, str]:
        """Additional properties of its brokers."""
        return (RETENTION_PROPERTIES if self.retention else {}) | (
            TWO_DIRECTORIES if self.two_directories else {}
        )

    def configs(self, topic: str) -> dict[str, str]:
        """A topic's configuration."""
        if topic == AGED:
            return RETENTION
        is_compacted = self.compacted and topic == COMPACTED
        return TOPIC_CONFIGS | ({"cleanup.policy": "compact"} if is_compacted else {})


def draw(dice: random.Random, brokers: int) -> Workload:
    """Draws one world's workload. A single broker moves nothing and ends if its only directory
    fails."""
    retention, compacted, growth, short_lived, throttled = (
        dice.random() < SHARE for _ in range(5)
    )
    two_directories = dice.random() < TWO_DIRECTORIES_SHARE
    return Workload(
        retention=retention,
        compacted=compacted,
        growth=growth,
        short_lived=short_lived,
        throttled=throttled and brokers > 1,
        two_directories=two_directories and brokers > 1,
        membership=dice.choice(list(Membership)),
    )
