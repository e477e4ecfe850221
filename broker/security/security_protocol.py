"""How clients of a listener identify themselves: Kafka's security protocols, and which are served.

Never: a handshake, or where listeners are configured.
"""

from __future__ import annotations

from enum import IntEnum


class SecurityProtocol(IntEnum):
    """Kafka's protocols, with the numbers that registrations of brokers have for them."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_sasl(self) -> bool:
        """Whether a client authenticates by SaslHandshake and SaslAuthenticate."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


SERVED_PROTOCOLS = frozenset({SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT})
"""What a listener may ask for today. TLS belongs into the network, SASL into `session`."""


def protocols_by_listener(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: the name of a listener's protocol."""
    pairs = (pair.strip().partition(":") for pair in text.split(","))
    return {name: protocol for name, colon, protocol in pairs if colon}
