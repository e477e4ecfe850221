"""How clients and brokers prove who they are: SASL.

One row per key: type, Kafka 4.4's default, what it does here. Each may be set for one listener, as
`listener.name.NAME.KEY`; `sasl.jaas.config` for one mechanism of it, as
`listener.name.NAME.MECHANISM.sasl.jaas.config` (NAME and MECHANISM in lower case).
"""

from __future__ import annotations

from broker.config import keys_oauth, keys_tls
from broker.config.checks import at_least
from broker.config.key import INT, LIST, PASSWORD, STRING, ConfigKey, key

LISTENER_PREFIX = "listener.name."

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("sasl.enabled.mechanisms", LIST, ("GSSAPI",),
        "The mechanisms by which clients of a listener with SASL may log in: PLAIN, "
        "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."),
    key("sasl.jaas.config", PASSWORD, None,
        "Java's login settings: user_NAME=\"PASSWORD\" for each user of PLAIN, username and "
        "password for what this broker logs in with at others."),
    key("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI",
        "The mechanism by which brokers log in at each other."),
    key("sasl.mechanism.controller.protocol", STRING, "GSSAPI",
        "The mechanism by which brokers and controllers log in at controllers; here PLAIN or "
        "GSSAPI."),
    key("sasl.kerberos.service.name", STRING, None,
        "The service in the principals SERVICE/HOST of brokers, at which this one logs in by "
        "GSSAPI."),
    key("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",),
        "Which user a Kerberos name is: RULE:[n:format](match)s/from/to/g/L and DEFAULT, which "
        "takes the first part of names of this broker's realm."),
    key("sasl.server.max.receive.size", INT, 524_288,
        "A larger request of a client that has not logged in yet closes its connection.",
        check=at_least(1)),
)
# fmt: on

_LISTENER_KEYS = frozenset(
    {row.name for row in KEYS}
    | {"connections.max.reauth.ms", "max.connection.creation.rate"}
    | keys_tls.NAMES
) - {"sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol"}


def is_read_by_listener(name: str) -> bool:
    """Whether it is a key of one listener, or of one mechanism, that has an effect here."""
    if name.startswith(LISTENER_PREFIX):
        name = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return (
        name in _LISTENER_KEYS or name.endswith(".sasl.jaas.config") or keys_oauth.is_read(name)
    )
