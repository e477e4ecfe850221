"""How clients of a listener identify themselves: Kafka's security protocols.

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

    @property
    def has_tls(self) -> bool:
        """Whether what is said is encrypted, and the server shows a certificate."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


def protocols_by_listener(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: the name of a listener's protocol."""
    pairs = (pair.strip().partition(":") for pair in text.split(","))
    return {name: protocol for name, colon, protocol in pairs if colon}
