"""Every metric a broker shows: Kafka's type and name, kind, labels and what it says.

docs/metrics.md is generated from `CATALOGUE`, and the page that Prometheus reads takes its HELP
lines from it. A test compares this table with the calls of `meter`, `gauge` and `histogram` in both
directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from broker.metrics.names import base_name


class MetricKind(StrEnum):
    """What Prometheus calls it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One metric. `alarm` says when to page an operator; empty: informative only."""

    type: str
    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    alarm: str = ""

    @property
    def exposed_name(self) -> str:
        """What stands on the page."""
        base = base_name(self.type, self.name)
        return f"{base}_total" if self.kind is MetricKind.COUNTER else base


COUNTER, GAUGE, SUMMARY = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.SUMMARY
_TOPIC = ("topic",)


def _rows(
    type_: str,
    *rows: tuple[str, MetricKind, str]
    | tuple[str, MetricKind, str, tuple[str, ...]]
    | tuple[str, MetricKind, str, tuple[str, ...], str],
) -> list[MetricInfo]:
    return [MetricInfo(type_, *row) for row in rows]


_TRAFFIC = _rows(
    "BrokerTopicMetrics",
    ("BytesInPerSec", COUNTER, "Bytes appended by leaders; without a topic: all.", _TOPIC),
    ("BytesOutPerSec", COUNTER, "Bytes that consumers fetched; without a topic: all.", _TOPIC),
    ("MessagesInPerSec", COUNTER, "Records appended by leaders; without a topic: all.", _TOPIC),
    ("ReplicationBytesInPerSec", COUNTER, "Bytes this broker's followers fetched."),
    ("ReassignmentBytesInPerSec", COUNTER, "Of those copied, bytes of replicas being added."),
    ("ReassignmentBytesOutPerSec", COUNTER, "Of those fetched, bytes of replicas being added."),
    ("ReplicationBytesOutPerSec", COUNTER, "Bytes other brokers' followers fetched here."),
)
_REPLICAS = _rows(
    "ReplicaManager",
    ("PartitionCount", GAUGE, "Replicas on this broker."),
    ("LeaderCount", GAUGE, "Partitions this broker leads."),
    ("UnderReplicatedPartitions", GAUGE, "Partitions led here that miss replicas.", (),
     "more than 0 for minutes: a broker is down, slow, or its disk is full"),
    ("UnderMinIsrPartitionCount", GAUGE, "Partitions led here that refuse acks=all now.", (),
     "more than 0: producers wait"),
    ("AtMinIsrPartitionCount", GAUGE, "Partitions led here that one more loss would stop."),
    ("OfflineReplicaCount", GAUGE,
     "Replicas that cannot be served: in a log directory that failed, damaged or missing.", (),
     "more than 0: broker.log names the directory or the file, and the remedy"),
    ("UnconfirmedTopics", GAUGE,
     "Topics copied to another site of which this broker takes no records.", (),
     "more than 0 for seconds: nobody confirms the site epoch; databus mirror primary"),
    ("ReassigningPartitions", GAUGE, "Partitions led here that are on the move."),
    ("IsrShrinksPerSec", COUNTER, "How often a follower was taken out of the ISR."),
    ("IsrExpandsPerSec", COUNTER, "How often a follower came back into the ISR."),
    ("DamagedFetchesPerSec", COUNTER,
     "Batches that a leader sent and this follower refused, by leader.", ("leader",),
     "it grows: the leader's disk or the way from it damages data; databus broker verify there"),
    ("FailedIsrUpdatesPerSec", COUNTER, "ISR changes the controller refused."),
)
_FETCHERS = [
    *_rows(
        "ReplicaFetcherManager",
        ("MaxLag", GAUGE, "Records the slowest replica here is behind its leader.", ("clientId",)),
        ("FailedPartitionsCount", GAUGE, "Replicas here whose copying rests after an error.",
         ("clientId",)),
    ),
    *_rows(
        "FetchSessionCache",
        ("NumIncrementalFetchSessions", GAUGE, "Fetch sessions remembered (KIP-227)."),
        ("NumIncrementalFetchPartitionsCached", GAUGE, "Partitions in them."),
    ),
    *_rows(
        "DelayedOperationPurgatory",
        ("PurgatorySize", GAUGE, "Requests that wait, by kind.", ("delayedOperation",)),
    ),
]
_REQUESTS = [
    *_rows(
        "RequestMetrics",
        ("RequestsPerSec", COUNTER, "Requests, by API and version.", ("request", "version")),
        ("TotalTimeMs", SUMMARY, "From the request's arrival to its answer; waiting included.",
         ("request",)),
    ),
    *_rows(
        "socket-server-metrics",
        ("connection-count", GAUGE, "Open connections, of clients and brokers."),
        ("tls-handshakes", COUNTER, "Handshakes of TLS that were completed, by listener.",
         ("listener",)),
        ("tls-handshakes-failed", COUNTER,
         "Handshakes of TLS that failed, by listener: broker.log says why.", ("listener",),
         "it grows with clients that worked before: a certificate has ended, or was changed"),
        ("unread-response-bytes", GAUGE,
         "Answers to clients that the kernel has not taken: their clients do not read.", (),
         "it stays at 64 MiB: what clients read is cut to a batch at a time"),
    ),
]
_CONTROLLER = [
    *_rows(
        "KafkaController",
        ("ActiveControllerCount", GAUGE, "1 on the active controller, 0 elsewhere.", (),
         "the sum over all brokers is not 1 for minutes"),
        ("ActiveBrokerCount", GAUGE, "Brokers that may lead, as this node knows."),
        ("FencedBrokerCount", GAUGE, "Registered brokers that may not lead, as this node knows.",
         (), "more than 0: a broker is down or starting"),
        ("GlobalTopicCount", GAUGE, "Topics, as this node knows."),
        ("GlobalPartitionCount", GAUGE, "Partitions, as this node knows."),
        ("OfflinePartitionsCount", GAUGE, "Partitions without a leader, as this node knows.", (),
         "more than 0: their producers and consumers stand still"),
        ("PreferredReplicaImbalanceCount", GAUGE,
         "Partitions not led by their first replica, as this node knows."),
    ),
    *_rows(
        "ControllerStats",
        ("UncleanLeaderElectionsPerSec", COUNTER,
         "Leaders elected that were not in sync, counted by the controller that did.", (),
         "it grows: acknowledged records may be lost; state-change.log names the partitions"),
    ),
    *_rows(
        "raft-metrics",
        ("current-leader", GAUGE, "The active controller's node id, -1 for none (KRaft).", (),
         "-1 for seconds: the controllers have no majority"),
        ("current-epoch", GAUGE, "The controller's epoch (KRaft)."),
        ("high-watermark", GAUGE, "Metadata records that are committed (KRaft)."),
        ("log-end-offset", GAUGE, "Metadata records stored here (KRaft)."),
    ),
    *_rows(
        "broker-metadata-metrics",
        ("last-applied-record-offset", GAUGE, "The newest metadata record this broker acts on."),
        ("metadata-load-error-count", GAUGE,
         "Committed records that the image could not take in (KRaft); they are left out, the log "
         "has the trace."),
        ("metadata-apply-error-count", GAUGE,
         "Changes of the metadata that a part of this broker could not apply (a partition, a "
         "configuration key); the rest is in force, the log says which."),
    ),
]
_LOGS_AND_GROUPS = [
    *_rows(
        "authorizer-metrics",
        ("authorization-denied", COUNTER, "Requests, or parts of some, that no ACL allows."),
        ("acls-total-count", GAUGE, "ACLs of the cluster."),
    ),
    *_rows(
        "quota",
        ("throttled", COUNTER, "Requests after which a client had to wait, by what it used up;"
         " connections that were refused because of their address (`Connection`), or had to wait"
         " (`ConnectionCreation`).",
         ("resource",)),
        ("throttle-time", GAUGE,
         "Milliseconds for which a client has to wait now, of the first 200 that had to.",
         ("resource", "user", "clientId")),
    ),
    *_rows("KafkaServer", ("BrokerState", GAUGE, "3: runs. 6: is shutting down. 1: starts.")),
    *_rows(
        "LogManager",
        ("LogDirectoryFreeBytes", GAUGE, "Free space on the disk of a log directory.",
         ("log_directory",), "less than a tenth of LogDirectoryTotalBytes"),
        ("LogDirectoryTotalBytes", GAUGE, "Size of the disk of a log directory.",
         ("log_directory",)),
        ("FullLogDirectoryCount", GAUGE,
         "Log directories whose disk refused a write within the last minute.", (),
         "more than 0: producers are refused until there is room"),
        ("DamagedBatchCount", GAUGE,
         "Batches in closed segments found damaged when last read (log.scrub.bytes.per.second).",
         (), "more than 0: broker.log names the files; databus broker verify looks at all"),
        ("ScrubbedBytes", GAUGE, "Bytes of closed segments read for that since the start."),
        ("StrayPartitionCount", GAUGE,
         "Logs kept that the metadata do not know (databus broker strays).", (),
         "more than 0: look whether topics or the metadata were lost"),
        ("StrayPartitionBytes", GAUGE, "Bytes of these."),
    ),
    *_rows(
        "LogCleaner",
        ("max-buffer-utilization-percent", GAUGE,
         "How full the map of keys was at the end of the last cleaning."),
        ("cleaner-recopy-percent", GAUGE, "Bytes that the last cleaning kept, of those it read."),
        ("max-clean-time-secs", GAUGE, "How long the last cleaning took."),
        ("max-compaction-delay-secs", GAUGE,
         "How much longer than max.compaction.lag.ms a record has waited for cleaning."),
        ("DeadThreadCount", GAUGE, "1 while the process that cleans dies again and again.", (),
         "more than 0 for minutes: broker.log says why; compacted logs grow"),
    ),
    *_rows(
        "LogCleanerManager",
        ("max-dirty-percent", GAUGE, "The largest dirty share of a compacted log."),
        ("time-since-last-run-ms", GAUGE, "Since the cleaner last looked for work.", (),
         "more than minutes: compacted logs grow"),
        ("uncleanable-partitions-count", GAUGE,
         "Compacted logs that cannot be cleaned until they change.", ("log_directory",),
         "more than 0: databus cleaner status says why; the log grows, and is read at each start"),
        ("uncleanable-bytes", GAUGE, "Bytes of these.", ("log_directory",)),
        ("DirtyPercent", GAUGE, "The share of a compacted log that was never cleaned.",
         ("topic", "partition")),
        ("OldestDirtyRecordAgeMs", GAUGE,
         "The age of its oldest record that was never cleaned; -1 if there is none.",
         ("topic", "partition")),
        ("LastCleanAgeMs", GAUGE, "Since its last cleaning by this process; -1 before the first.",
         ("topic", "partition")),
        ("Uncleanable", GAUGE, "1 while it cannot be cleaned.", ("topic", "partition")),
        ("UncleanableForMs", GAUGE, "Since it could not be cleaned for the first time, and why.",
         ("topic", "partition", "fault", "reason")),
    ),
    *_rows("LogFlushStats", ("LogFlushRateAndTimeMs", SUMMARY, "Forcing one log to its disk.")),
    *_rows("Log", ("Size", GAUGE, "Bytes of all logs here.")),
    *_rows("GroupMetadataManager", ("NumGroups", GAUGE, "Groups this broker coordinates.")),
]

CATALOGUE: tuple[MetricInfo, ...] = (
    *_TRAFFIC, *_REPLICAS, *_FETCHERS, *_REQUESTS, *_CONTROLLER, *_LOGS_AND_GROUPS,
)  # fmt: skip
BY_NAME: dict[tuple[str, str], MetricInfo] = {(one.type, one.name): one for one in CATALOGUE}
HELP: dict[str, str] = {base_name(one.type, one.name): one.help for one in CATALOGUE}
