"""What a topic may set for itself.

One row per key: type, Kafka 4.4's default, what it does here.
"""

from __future__ import annotations

from broker.config.checks import at_least, between, each_one_of, one_of, throttled_replicas
from broker.config.key import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_ARRAY_BYTES,
    MAX_LONG,
    STRING,
    ConfigKey,
    topic_key,
)

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    topic_key("cleanup.policy", LIST, ("delete",),
        "What happens to old segments: \"delete\" removes them by age and size, \"compact\" "
        "keeps the newest record of each key; both may be given, and an empty list keeps "
        "everything for ever.",
        check=each_one_of("compact", "delete")),
    topic_key("compression.type", STRING, "producer",
        "\"producer\" stores batches as they come; batches in another codec than the one named "
        "here are decompressed and compressed again by the leader.",
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    topic_key("compression.gzip.level", INT, -1,
        "The gzip level, where the broker itself compresses.",
        check=between(1, 9, also=-1)),
    topic_key("compression.lz4.level", INT, 9,
        "The lz4 level, where the broker itself compresses.",
        check=between(1, 17)),
    topic_key("compression.zstd.level", INT, 3,
        "The zstd level, where the broker itself compresses.",
        check=between(-131072, 22)),
    topic_key("delete.retention.ms", LONG, 86_400_000,
        "How long a tombstone stays visible after cleaning.",
        check=at_least(0)),
    topic_key("errors.deadletterqueue.group.enable", BOOLEAN, False,
        "Accepted for compatibility; there are no share groups here."),
    topic_key("file.delete.delay.ms", LONG, 60_000,
        "How long the files of a deleted segment stay, so that readers can finish.",
        check=at_least(0)),
    topic_key("flush.messages", LONG, MAX_LONG,
        "The partition is forced to the device when so many records have come since the last "
        "time.",
        check=at_least(1)),
    topic_key("flush.ms", LONG, MAX_LONG,
        "The partition is forced to the device when records have waited this long for it.",
        check=at_least(0)),
    topic_key("follower.replication.throttled.replicas", LIST, (),
        "Replicas whose copying is throttled on the follower's side: partition:broker, "
        "separated by commas, or *.",
        check=throttled_replicas("follower.replication.throttled.replicas")),
    topic_key("index.interval.bytes", INT, 4096,
        "About one index entry is made per so many bytes of log.",
        check=at_least(0)),
    topic_key("leader.replication.throttled.replicas", LIST, (),
        "Replicas whose copying is throttled on the leader's side: partition:broker, "
        "separated by commas, or *.",
        check=throttled_replicas("leader.replication.throttled.replicas")),
    topic_key("local.retention.bytes", LONG, -2,
        "Accepted for compatibility; nothing is tiered here, so retention.bytes alone holds.",
        check=at_least(-2)),
    topic_key("local.retention.ms", LONG, -2,
        "Accepted for compatibility; nothing is tiered here, so retention.ms alone holds.",
        check=at_least(-2)),
    topic_key("max.compaction.lag.ms", LONG, MAX_LONG,
        "A record is offered to cleaning at the latest after this.",
        check=at_least(1)),
    topic_key("max.decompressed.message.bytes", INT, MAX_ARRAY_BYTES,
        "The largest single record the topic takes, measured after unpacking; checked where the "
        "leader unpacks records.",
        check=between(1, MAX_ARRAY_BYTES)),
    topic_key("max.message.bytes", INT, 1_048_588,
        "The largest batch the topic takes.",
        check=at_least(0)),
    topic_key("message.timestamp.after.max.ms", LONG, 3_600_000,
        "A batch whose newest timestamp lies further in the future is refused (with "
        "CreateTime).",
        check=at_least(0)),
    topic_key("message.timestamp.before.max.ms", LONG, MAX_LONG,
        "A batch whose first timestamp is older than this is refused (with CreateTime).",
        check=at_least(0)),
    topic_key("message.timestamp.type", STRING, "CreateTime",
        "CreateTime keeps the producer's timestamps, LogAppendTime puts the broker's in their "
        "place.",
        check=one_of("CreateTime", "LogAppendTime")),
    topic_key("min.cleanable.dirty.ratio", DOUBLE, 0.5,
        "A log is cleaned when at least this share of it is new since the last cleaning.",
        check=between(0, 1)),
    topic_key("min.compaction.lag.ms", LONG, 0,
        "A record is left alone by cleaning at least this long.",
        check=at_least(0)),
    topic_key("min.insync.replicas", INT, 1,
        "How many replicas must be in sync for a write with acks=all to be taken.",
        check=at_least(1)),
    topic_key("preallocate", BOOLEAN, False,
        "Accepted for compatibility; segments are never allocated ahead."),
    topic_key("remote.copy.lag.bytes", LONG, -1,
        "Accepted for compatibility; nothing is tiered here.",
        check=at_least(-1)),
    topic_key("remote.copy.lag.ms", LONG, 0,
        "Accepted for compatibility; nothing is tiered here.",
        check=at_least(-1)),
    topic_key("remote.log.copy.disable", BOOLEAN, False,
        "Accepted for compatibility; nothing is tiered here."),
    topic_key("remote.log.delete.on.disable", BOOLEAN, False,
        "Accepted for compatibility; nothing is tiered here."),
    topic_key("remote.storage.enable", BOOLEAN, False,
        "Accepted for compatibility; nothing is tiered here, true is refused."),
    topic_key("retention.bytes", LONG, -1,
        "The oldest segments are deleted while a partition is larger than this; -1 is no "
        "bound."),
    topic_key("retention.ms", LONG, 604_800_000,
        "Segments whose newest record is older are deleted; -1 keeps them for ever.",
        check=at_least(-1)),
    topic_key("segment.bytes", INT, 1_073_741_824,
        "A segment is closed before it grows beyond this.",
        check=at_least(1048576)),
    topic_key("segment.index.bytes", INT, 10_485_760,
        "A segment is closed when one of its indexes reaches this.",
        check=at_least(4)),
    topic_key("segment.jitter.ms", LONG, 0,
        "Segments of different partitions close up to this much earlier, so that not all do "
        "at once.",
        check=at_least(0)),
    topic_key("segment.ms", LONG, 604_800_000,
        "A segment is closed when its records span more than this.",
        check=at_least(1)),
    topic_key("unclean.leader.election.enable", BOOLEAN, False,
        "Whether a replica outside the in-sync set may lead when no other is left."),
)

HIDDEN: tuple[ConfigKey, ...] = (
    topic_key("internal.segment.bytes", INT, None,
        "As segment.bytes, without its lower bound; for tests, as in Kafka.",
        check=at_least(14)),
    topic_key("mirror.cuts", STRING, "",
        "A key of our own: where logs of this topic were cut when this site came back as a "
        "secondary; applications whose positions are not on the bus go back to it."),
    topic_key("mirror.generation", LONG, 0,
        "A key of our own: the mirror's appends of an older generation are refused, also by a "
        "leader that has not heard of the newer one.",
        check=at_least(0)),
    topic_key("mirror.refuses.commits.epoch", LONG, 0,
        "A key of our own: while this is the number of the site epoch in force, groups' commits of "
        "this topic are refused, and clients try again.",
        check=at_least(0)),
    topic_key("mirror.source.cluster.id", STRING, "",
        "A key of our own: the cluster this topic is mirrored from. While it is set, only the "
        "mirror writes records here, over the listener that mirror.listener.name names."),
    topic_key("mirror.source.topic.id", STRING, "",
        "A key of our own: the id of the source's topic that this one is copied from. The mirror "
        "does not go on with another one of that name."),
    topic_key("mirror.target.cluster.id", STRING, "",
        "A key of our own: a cluster this topic is copied to. After a restart of the whole cluster "
        "it takes records only once somebody has confirmed the site epoch."),
)
"""Keys that a topic may have and that are shown only if they are set."""
# fmt: on
