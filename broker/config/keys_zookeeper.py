"""ZooKeeper mode: where the ensemble is, how long a session lives, how a broker says who it is.

One row per key: type, Kafka 3.9's default (4 has no ZooKeeper), what it does here. Those of `ssl`
are Kafka's names of the settings of ZooKeeper's own client; `java.…` and `zookeeper.sasl.…` are
what Kafka's broker takes as system properties of Java.
"""

from __future__ import annotations

from broker.config.checks import at_least, each_one_of, one_of
from broker.config.key import BOOLEAN, INT, LIST, PASSWORD, STRING, ConfigKey, key
from broker.config.keys_tls import PROTOCOLS

SOCKETS = ("org.apache.zookeeper.ClientCnxnSocketNetty", "org.apache.zookeeper.ClientCnxnSocketNIO")

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
    key("zookeeper.set.acl", BOOLEAN, False,
        "Whether new nodes belong to the login of the brokers: others read them, but for users, "
        "brokers' settings and tokens, and change none."),
    key("java.security.auth.login.config", STRING, None,
        "A file in the syntax of JAAS whose section Client has the user and the password of "
        "DIGEST-MD5; a system property of Java's in Kafka."),
    key("zookeeper.sasl.clientconfig", STRING, "Client",
        "Another name of that section."),
    key("zookeeper.ssl.client.enable", BOOLEAN, False,
        "Whether the ensemble is spoken to over TLS."),
    key("zookeeper.clientCnxnSocket", STRING, None,
        "Kafka needs org.apache.zookeeper.ClientCnxnSocketNetty for TLS; here it may be left out.",
        check=one_of(*SOCKETS)),
    key("zookeeper.ssl.keystore.location", STRING, None,
        "The file of the key and the certificate that this broker shows to the ensemble; a changed "
        "file counts for the next connection."),
    key("zookeeper.ssl.keystore.password", PASSWORD, None,
        "The password of that store, of PKCS#12 or of an encrypted key of PEM."),
    key("zookeeper.ssl.keystore.type", STRING, None,
        "PEM or PKCS12; by default as the file's name ends (.pem, .p12)."),
    key("zookeeper.ssl.truststore.location", STRING, None,
        "The file of the authorities whose certificates the ensemble may show; without one, those "
        "of the system."),
    key("zookeeper.ssl.truststore.password", PASSWORD, None,
        "The password of that store, of PKCS#12."),
    key("zookeeper.ssl.truststore.type", STRING, None,
        "PEM or PKCS12; by default as the file's name ends."),
    key("zookeeper.ssl.protocol", STRING, "TLSv1.2",
        "The version of TLS, where zookeeper.ssl.enabled.protocols names none.",
        check=one_of(*PROTOCOLS)),
    key("zookeeper.ssl.enabled.protocols", LIST, None,
        "The versions of TLS that are spoken: TLSv1.2, TLSv1.3.",
        check=each_one_of(*PROTOCOLS)),
    key("zookeeper.ssl.cipher.suites", LIST, None,
        "The suites of TLS 1.2 that are offered; without them OpenSSL's choice."),
    key("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS",
        "Whether the ensemble's certificates must have the address in zookeeper.connect; empty: "
        "they need not."),
    key("zookeeper.ssl.crl.enable", BOOLEAN, False,
        "Lists of withdrawn certificates; true is refused, as nothing here reads them."),
    key("zookeeper.ssl.ocsp.enable", BOOLEAN, False,
        "Asking for withdrawn certificates; true is refused, as nothing here asks."),
    key("controlled.shutdown.max.retries", INT, 3,
        "How often a stopping broker asks the controller to take over what it leads."),
    key("controlled.shutdown.retry.backoff.ms", INT, 5_000,
        "How long it waits before it asks again."),
)
# fmt: on
