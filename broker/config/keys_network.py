"""Listeners, sockets, connections and request queues.

One row per key: type, Kafka 4.4's default, what it does here.
"""

from __future__ import annotations

from broker.config.checks import at_least, by_address, one_of
from broker.config.key import (
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    MAX_INT,
    STRING,
    ConfigKey,
    key,
)

MOST_CONNECTIONS = 10_000
"""Cameras go through the edge: a bus has as many connections as applications and their threads.
Each costs about 5 kB idle and a batch when its client does not read."""

SYSTEMS_BUFFER = -1
"""The system enlarges a connection's buffers to several megabytes as it is used. Kafka's default of
100 KiB would forbid that, and with it more than 2 MB/s over a link of 50 ms."""

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("listeners", LIST, ("PLAINTEXT://:9092",),
        "Where the broker listens: NAME://host:port, separated by commas. Without a host it "
        "is this machine only."),
    key("advertised.listeners", LIST, None,
        "The addresses that clients connect to, if they differ from listeners."),
    key("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener's name stands for."),
    key("early.start.listeners", LIST, None,
        "Listeners that open before the broker is ready."),
    key("inter.broker.listener.name", STRING, None,
        "The listener brokers use among themselves."),
    key("mirror.listener.name", STRING, "",
        "A key of our own: the listener over which another site's mirror may write into mirrored "
        "topics, beside all that clients may do. Empty: there is none."),
    key("mirror.reserved.topics", LIST, (),
        "A key of our own: names that no client's first use creates, because a mirror will; one "
        "that ends in * stands for all names that begin so."),
    key("mirror.site.epoch", STRING, "",
        "A key of our own: which of two mirrored clusters is the primary, and since when. Set for "
        "all brokers by `databus mirror switch`, only to a newer one, and never unset.",
        dynamic=CLUSTER_WIDE),
    key("mirror.site.confirmation", STRING, "",
        "A key of our own: who confirmed last that this cluster's site epoch is the newest, when "
        "and why. Set for all brokers by the mirror, or by `databus mirror primary --force`; "
        "unsetting it gives up the second site.",
        dynamic=CLUSTER_WIDE),
    key("mirror.site.members", STRING, "",
        "A key of our own: the processes of brokers that are confirmed. The controller alone "
        "writes it.",
        dynamic=CLUSTER_WIDE),
    key("security.inter.broker.protocol", STRING, "PLAINTEXT",
        "The security protocol among brokers, if no listener is named.",
        check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    key("num.network.threads", INT, 3,
        "Accepted for compatibility; one loop serves all connections.",
        dynamic=CLUSTER_WIDE,
        check=at_least(1)),
    key("num.io.threads", INT, 8,
        "Accepted for compatibility; requests are handled on the same loop.",
        dynamic=CLUSTER_WIDE,
        check=at_least(1)),
    key("queued.max.requests", INT, 500,
        "How many requests may wait before reading from the connections pauses.",
        check=at_least(1)),
    key("queued.max.request.bytes", LONG, -1,
        "How many bytes of requests may wait before reading pauses; -1 is no bound of its "
        "own."),
    key("socket.listen.backlog.size", INT, 50,
        "Connections the system may hold that were not accepted yet.",
        check=at_least(1)),
    key("socket.receive.buffer.bytes", INT, SYSTEMS_BUFFER,
        "The system's receive buffer per connection; -1 leaves it to the system.",
        check=at_least(-1)),
    key("socket.send.buffer.bytes", INT, SYSTEMS_BUFFER,
        "The system's send buffer per connection; -1 leaves it to the system.",
        check=at_least(-1)),
    key("socket.request.max.bytes", INT, 104_857_600,
        "A larger request closes its connection.",
        check=at_least(1)),
    key("socket.connection.setup.timeout.ms", LONG, 10_000,
        "How long to wait for a connection to another broker at first."),
    key("socket.connection.setup.timeout.max.ms", LONG, 30_000,
        "The longest wait for a connection to another broker."),
    key("connections.max.idle.ms", LONG, 600_000,
        "A connection without a request for so long is closed."),
    key("connections.max.reauth.ms", LONG, 0,
        "How long a SASL session lasts before it must be renewed; 0 is for ever."),
    key("connection.failed.authentication.delay.ms", INT, 100,
        "How long a refused client waits for its answer.",
        check=at_least(0)),
    key("max.connections", INT, MOST_CONNECTIONS,
        "The most connections at a time, on each listener. Kafka sets no bound by default; each "
        "connection may hold an answer that its client does not read.",
        dynamic=CLUSTER_WIDE,
        check=at_least(0)),
    key("max.connections.per.ip", INT, MAX_INT,
        "The most connections from one address.",
        dynamic=CLUSTER_WIDE,
        check=at_least(0)),
    key("max.connections.per.ip.overrides", STRING, "",
        "Other bounds for single addresses, address:number, separated by commas.",
        dynamic=CLUSTER_WIDE,
        check=by_address),
    key("max.connection.creation.rate", INT, MAX_INT,
        "The most new connections per second, of each listener and of all of this process "
        "together; more wait. The inter-broker listener obeys its own bound only.",
        dynamic=CLUSTER_WIDE,
        check=at_least(0)),
    key("request.timeout.ms", INT, 30_000,
        "How long a request between brokers may take."),
    key("fetch.max.bytes", INT, 57_671_680,
        "The most bytes a fetch is answered with (a first batch larger than this comes all "
        "the same).",
        check=at_least(1024)),
    key("max.incremental.fetch.session.cache.slots", INT, 1000,
        "How many fetch sessions are kept.",
        check=at_least(0)),
    key("fetch.purgatory.purge.interval.requests", INT, 1000,
        "Accepted for compatibility; answered requests leave nothing behind that needs "
        "purging."),
    key("producer.purgatory.purge.interval.requests", INT, 1000,
        "Accepted for compatibility, as for fetch."),
    key("delete.records.purgatory.purge.interval.requests", INT, 1,
        "Accepted for compatibility, as for fetch."),
    key("quota.window.num", INT, 11,
        "How many samples a client quota is measured over.",
        check=at_least(1)),
    key("quota.window.size.seconds", INT, 1,
        "How long one such sample is.",
        check=at_least(1)),
    key("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",),
        "Accepted for compatibility; metrics are read over HTTP in Prometheus form.",
        dynamic=CLUSTER_WIDE),
    key("metrics.num.samples", INT, 2,
        "Samples kept per rate.",
        check=at_least(1)),
    key("metrics.recording.level", STRING, "INFO",
        "How much is measured."),
    key("metrics.sample.window.ms", LONG, 30_000,
        "How long one sample is.",
        check=at_least(1)),
)
# fmt: on
