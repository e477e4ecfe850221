"""Levels of `metadata.version` and what each of them means for the records on disk.

For each level: its name, the version of each record kind, what a cluster of this level may do.
Which level a cluster has is in its image.

Source: Kafka 4.4's MetadataVersion (KIP-778). A broker here writes the records of 3.9-IV0 up to
4.4-IV2; a data directory of an older level stays there until an operator upgrades it.
"""

from __future__ import annotations

from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"

MIN_LEVEL = 21
"""3.9-IV0: replicas have directories, brokers name theirs. What the first data directories have."""

MAX_LEVEL = 33
"""4.4-IV2: the removal of a controller's registration is the newest thing in the records."""

ELR_LEVEL = 23
"""4.0-IV1: partitions may carry eligible leader replicas (KIP-966)."""

ELR_DEFAULT_LEVEL = 26
"""4.1-IV0: from here on a new cluster begins with eligible leader replicas switched on."""

CORDONED_LEVEL = 30
"""4.3-IV0: brokers may say which of their directories take no new replicas (KIP-1066)."""

CIDR_LEVEL = 32
"""4.4-IV1: the host of an ACL may be a block of addresses in CIDR notation."""

CONTROLLER_UNREGISTRATION_LEVEL = 33
"""4.4-IV2: a controller that will not come back can be unregistered."""

KRAFT_VERSION_LEVEL = 1
"""Voters are kept in the log with their directory ids (KIP-853)."""

LEVEL_NAMES: Mapping[int, str] = {
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
    32: "4.4-IV1",
    33: "4.4-IV2",
}

CHANGES_RECORDS = frozenset({23, 30, 32, 33})
"""Levels that brought new records or fields into them: a downgrade across one would lose them."""

SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (MIN_LEVEL, MAX_LEVEL),
    KRAFT_VERSION: (0, KRAFT_VERSION_LEVEL),
    ELR_VERSION: (0, 1),
}
"""Feature levels that every node of this code can work with, both ends inclusive."""


def record_version(kind: str, level: int) -> int:
    """The version in which a record kind is written at a level of metadata.version."""
    if kind == "RegisterBrokerRecord":
        return 4 if level >= CORDONED_LEVEL else 3
    if kind == "BrokerRegistrationChangeRecord":
        return 3 if level >= CORDONED_LEVEL else 2
    if kind in ("PartitionRecord", "PartitionChangeRecord"):
        return 2 if level >= ELR_LEVEL else 1
    return 0


def loses_metadata(old: int, new: int) -> bool:
    """Whether going down from `old` to `new` would drop fields that records may carry."""
    return any(new < level <= old for level in CHANGES_RECORDS)
