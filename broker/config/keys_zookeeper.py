"""ZooKeeper mode: where the ensemble is, how long a session lives.

One row per key: type, Kafka 3.9's default (4 has no ZooKeeper), what it does here.
"""

from __future__ import annotations

from broker.config.checks import at_least
from broker.config.key import INT, STRING, ConfigKey, key

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("zookeeper.connect", STRING, "",
        "The ensemble as host:port,host:port/chroot; set, the broker runs in ZooKeeper mode."),
    key("zookeeper.session.timeout.ms", INT, 18_000,
        "How long ZooKeeper keeps a broker that is silent.",
        check=at_least(1)),
    key("zookeeper.connection.timeout.ms", INT, 18_000,
        "How long a starting broker waits for the ensemble; Kafka's default is the session's.",
        check=at_least(1)),
    key("controlled.shutdown.max.retries", INT, 3,
        "How often a stopping broker asks the controller to take over what it leads."),
    key("controlled.shutdown.retry.backoff.ms", INT, 5_000,
        "How long it waits before it asks again."),
)
# fmt: on
