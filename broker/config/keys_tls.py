"""Certificates and keys of TLS.

One row per key: type, Kafka 4.4's default, what it does here. Each may be set for one listener, as
`listener.name.NAME.KEY` (NAME in lower case), and while a broker runs, that way only.
"""

from __future__ import annotations

from broker.config.checks import each_one_of, one_of
from broker.config.key import LIST, PASSWORD, PER_BROKER, STRING, ConfigKey, key

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("ssl.keystore.type", STRING, "JKS",
        "What ssl.keystore.location is: PEM or PKCS12. Kafka's default is not served, so that it "
        "must be set.",
        dynamic=PER_BROKER),
    key("ssl.keystore.location", STRING, None,
        "The file of this broker's key and certificate, with those between it and its authority. A "
        "changed file counts for new connections.",
        dynamic=PER_BROKER),
    key("ssl.keystore.password", PASSWORD, None,
        "The password of a store of PKCS12.",
        dynamic=PER_BROKER),
    key("ssl.key.password", PASSWORD, None,
        "The password of an encrypted key of PEM.",
        dynamic=PER_BROKER),
    key("ssl.keystore.key", PASSWORD, None,
        "The key itself, in PKCS#8 and PEM, where the type is PEM and there is no location.",
        dynamic=PER_BROKER),
    key("ssl.keystore.certificate.chain", PASSWORD, None,
        "The certificate itself, in PEM, with those between it and its authority.",
        dynamic=PER_BROKER),
    key("ssl.truststore.type", STRING, "JKS",
        "What ssl.truststore.location is: PEM or PKCS12.",
        dynamic=PER_BROKER),
    key("ssl.truststore.location", STRING, None,
        "The file of the authorities that are trusted.",
        dynamic=PER_BROKER),
    key("ssl.truststore.password", PASSWORD, None,
        "The password of a store of PKCS12.",
        dynamic=PER_BROKER),
    key("ssl.truststore.certificates", PASSWORD, None,
        "The authorities themselves, in PEM, where the type is PEM and there is no location.",
        dynamic=PER_BROKER),
    key("ssl.client.auth", STRING, "none",
        "Whether clients must show a certificate (required), may (requested) or are not asked.",
        dynamic=PER_BROKER,
        check=one_of(*CLIENT_AUTH)),
    key("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken: TLSv1.2, TLSv1.3.",
        dynamic=PER_BROKER,
        check=each_one_of(*PROTOCOLS)),
    key("ssl.cipher.suites", LIST, (),
        "The suites of TLS 1.2 that are offered, by their standard names; empty: OpenSSL's choice. "
        "Those of TLS 1.3 are always offered.",
        dynamic=PER_BROKER),
    key("ssl.principal.mapping.rules", STRING, "DEFAULT",
        "Which principal the name in a client's certificate is: RULE:pattern/replacement/[LU], "
        "separated by commas; the first that fits. DEFAULT is the name as it is."),
    key("ssl.endpoint.identification.algorithm", STRING, "https",
        "Whether this broker checks that another's certificate has its address; empty: it does "
        "not.",
        dynamic=PER_BROKER),
)
# fmt: on

NAMES = frozenset(row.name for row in KEYS)
