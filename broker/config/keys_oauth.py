"""Which tokens of OAUTHBEARER count, and whose keys sign them.

One row per key: type, Kafka 4.4's default, what it does here. Each may be set for one listener, as
`listener.name.NAME.KEY`, or for the mechanism, as `listener.name.NAME.oauthbearer.KEY`.
"""

from __future__ import annotations

from broker.config.checks import at_least
from broker.config.key import BOOLEAN, CLASS, INT, LIST, LONG, STRING, ConfigKey, key

HANDLER_CLASS = "sasl.server.callback.handler.class"
"""Set for the mechanism of a listener only, and in no table, as in Kafka."""
MECHANISM_PREFIX = "oauthbearer."

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
VALIDATORS = (f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator")
HANDLERS = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
"""The second one is Kafka 3's."""

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("sasl.oauthbearer.jwks.endpoint.url", STRING, None,
        "Where the keys are that tokens of OAUTHBEARER are signed with (JWKS): file:/… or "
        "https://…. Of a file a changed one counts within seconds."),
    key("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000,
        "How often the keys are fetched over HTTPS; besides, for a token with an unknown key, at "
        "most every ten seconds.",
        check=at_least(1)),
    key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100,
        "How long is waited after a failed fetch, a second at least, and twice as long after each "
        "further one.",
        check=at_least(1)),
    key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000,
        "The longest wait after a failed fetch.",
        check=at_least(1)),
    key("sasl.oauthbearer.expected.audience", LIST, (),
        "A token must be for one of these (its claim aud). Must be set, or "
        "sasl.oauthbearer.allow.unverified.audience=true."),
    key("sasl.oauthbearer.allow.unverified.audience", BOOLEAN, False,
        "Whether tokens for any audience count where none is expected."),
    key("sasl.oauthbearer.expected.issuer", STRING, None,
        "A token must be of this one (its claim iss). Must be set, or "
        "sasl.oauthbearer.allow.unverified.issuer=true."),
    key("sasl.oauthbearer.allow.unverified.issuer", BOOLEAN, False,
        "Whether tokens of any issuer count where none is expected."),
    key("sasl.oauthbearer.clock.skew.seconds", INT, 30,
        "By how much the issuer's clock may differ from this broker's.",
        check=at_least(0)),
    key("sasl.oauthbearer.sub.claim.name", STRING, "sub",
        "The claim of a token that names its user."),
    key("sasl.oauthbearer.scope.claim.name", STRING, "scope",
        "The claim of a token that has its scopes. They must be well formed; what a client may do, "
        "ACLs say."),
    key("sasl.oauthbearer.jwt.validator.class", CLASS, VALIDATORS[0],
        "Kafka's own validators mean ours; any other is refused."),
)
# fmt: on

_NAMES = frozenset(row.name for row in KEYS)


def is_read(name: str) -> bool:
    """Whether it is one of these, of all listeners or of the mechanism. Without the prefix of a
    listener."""
    own = name.removeprefix(MECHANISM_PREFIX)
    return own in _NAMES or (own == HANDLER_CLASS and own != name)
