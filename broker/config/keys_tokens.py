"""Delegation tokens (KIP-48): with what they are made, and how long they last.

One row per key: type, Kafka 4.4's default, what it does here.
"""

from __future__ import annotations

from broker.config.checks import at_least
from broker.config.key import LONG, PASSWORD, ConfigKey, key

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("delegation.token.secret.key", PASSWORD, None,
        "What delegation tokens are made and proved with, the same on all brokers and controllers; "
        "without it there are no tokens."),
    key("delegation.token.max.lifetime.ms", LONG, 604_800_000,
        "After so long from its making no token can be renewed.",
        check=at_least(1)),
    key("delegation.token.expiry.time.ms", LONG, 86_400_000,
        "How long a token lasts unless it is renewed.",
        check=at_least(1)),
    key("delegation.token.expiry.check.interval.ms", LONG, 3_600_000,
        "How often the controller removes tokens that have expired.",
        check=at_least(1)),
)
# fmt: on
