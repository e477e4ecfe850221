"""Keys that are parsed, checked, stored and described as Kafka's, but have no effect here.

Each has its reason, for the log, for DescribeConfigs and for the operator. A test finds keys that
are listed but have an effect, and keys without an effect that are not listed.
"""

from __future__ import annotations

_REASONS: dict[str, tuple[str, ...]] = {
    "there are no share groups": ("errors.deadletterqueue.group.enable",),
    "batches stay as they were sent": (
        "offsets.topic.compression.codec",
    ),
    "files grow as they are written": ("log.preallocate", "preallocate"),
    "one event loop does the work of all threads": (
        "background.threads",
        "group.coordinator.append.linger.ms",
        "group.coordinator.background.threads",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "queued.max.requests",
    ),
    "records are written and read without a buffer of their own": (
        "controller.quorum.append.linger.ms",
        "offsets.load.buffer.size",
        "transaction.state.log.load.buffer.size",
    ),
    "the system tunes its sockets": (
        "replica.socket.receive.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.listen.backlog.size",
    ),
    "waiting requests are dropped as they end": (
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "producer.purgatory.purge.interval.requests",
    ),
    "listeners open when the broker is ready": ("early.start.listeners",),
    "a failed directory is reported until the controller has it": ("log.dir.failure.timeout.ms",),
    "a class of Java cannot be loaded": (
        "alter.config.policy.class.name",
        "client.quota.callback.class",
        "create.topic.policy.class.name",
        "metric.reporters",
    ),
    "metrics count from the start of the process": (
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
    "groups of the new protocol (KIP-848) are not offered yet": (
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.coordinator.rebalance.protocols",
    ),
    "transactions are not offered yet": (
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.partition.verification.enable",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.num.partitions",
        "transaction.state.log.segment.bytes",
        "transaction.two.phase.commit.enable",
        "transactional.id.expiration.ms",
    ),
    "tiered storage is not offered": (
        "local.retention.bytes",
        "local.retention.ms",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    ),
}

IGNORED_KEYS: dict[str, str] = {
    name: reason for reason, names in _REASONS.items() for name in names
}
"""By key, of brokers and of topics: the reason."""


def explain_ignored(name: str, doc: str) -> str:
    """A key's documentation, with the reason why it has no effect here."""
    reason = IGNORED_KEYS.get(name)
    return doc if reason is None else f"{doc} No effect here: {reason}."
