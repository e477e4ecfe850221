"""Which tokens of OAUTHBEARER a listener takes, by its settings.

In: configuration. Out: `TokenSettings`. Raises ConfigError, which names the key and has no secret
of it. Never: a listener that takes tokens without keys, or unsigned ones.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from broker.config.key import ConfigError
from broker.config.keys_oauth import HANDLER_CLASS, HANDLERS, VALIDATORS
from broker.config.keys_security import LISTENER_PREFIX
from broker.config.views import JAAS, BrokerConfig
from broker.security.token_keys import TokenSettings
from bus.security.jaas import LoginModule
from bus.security.oauth_bearer import TokenRules
from bus.security.sasl_server import OAUTHBEARER

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE, ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
ANY_AUDIENCE = "sasl.oauthbearer.allow.unverified.audience"
ANY_ISSUER = "sasl.oauthbearer.allow.unverified.issuer"
VALIDATOR_CLASS = "sasl.oauthbearer.jwt.validator.class"
LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_TRUST_STORE = "ssl.truststore."


class ListenerTokens:
    """Reads what the keys of one listener say of its tokens. Every method raises ConfigError."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self._config, self._listener = config, listener

    def settings(self, module: LoginModule | None) -> TokenSettings:
        """`module`: of the mechanism's login settings, if there are any."""
        self._check_classes()
        options = self._options(module)
        return TokenSettings(
            self._rules(),
            self._url(),
            self._value("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
            self._value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
            self._value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
            {name: text for name, text in options.items() if name.startswith(_TRUST_STORE)},
        )

    def error(self, name: str, reason: str) -> ConfigError:
        """Which listener's key it is, and what is wrong with it."""
        key = f"{LISTENER_PREFIX}{self._listener.lower()}.{OAUTHBEARER.lower()}.{name}"
        return ConfigError(name, f"{key}: {reason}")

    def _value(self, name: str) -> Any:
        return self._config.of_mechanism(self._listener, OAUTHBEARER, name)

    def _check_classes(self) -> None:
        handler = self._config.mechanism_text(self._listener, OAUTHBEARER, HANDLER_CLASS)
        if handler is not None and handler.strip() not in HANDLERS:
            raise self.error(
                HANDLER_CLASS,
                f"{handler.strip()} is not served: tokens count here by the signature of a known "
                f"key only; set {HANDLERS[0]}, or remove it",
            )
        validator = self._value(VALIDATOR_CLASS)
        if validator not in VALIDATORS:
            raise self.error(VALIDATOR_CLASS, f"{validator} is not served; set {VALIDATORS[0]}")

    def _options(self, module: LoginModule | None) -> dict[str, str]:
        if module is None:
            return {}
        if module.name != LOGIN_MODULE:
            raise self.error(JAAS, f"the login module of OAUTHBEARER is {LOGIN_MODULE}")
        if any(name.startswith("unsecured") for name in module.options):
            raise self.error(
                JAAS,
                "options that begin with unsecured are about tokens without a signature, which "
                "never count here; remove them",
            )
        return dict(module.options)

    def _rules(self) -> TokenRules:
        audiences, issuer = self._value(AUDIENCE), self._value(ISSUER)
        if not audiences and not self._value(ANY_AUDIENCE):
            raise self.error(
                AUDIENCE,
                "it is not set, so that a token for any other service would count; set what "
                f"tokens for this cluster have as aud, or {ANY_AUDIENCE}=true",
            )
        if not issuer and not self._value(ANY_ISSUER):
            raise self.error(
                ISSUER,
                "it is not set; set what tokens of your token service have as iss, or "
                f"{ANY_ISSUER}=true",
            )
        return TokenRules(
            tuple(audiences),
            issuer or None,
            self._value("sasl.oauthbearer.clock.skew.seconds"),
            self._value("sasl.oauthbearer.sub.claim.name"),
            self._value("sasl.oauthbearer.scope.claim.name"),
        )

    def _url(self) -> str:
        """An URL of HTTPS, or the path of a file."""
        text: str | None = self._value(JWKS_URL)
        wanted = "set file:/… or https://… of the keys (JWKS) that tokens are signed with"
        if not text:
            raise self.error(
                JWKS_URL, f"it is not set, and without keys no token can be judged; {wanted}"
            )
        try:
            parts = urlsplit(text)
            has_port = parts.port != 0  # raises ValueError for one that there cannot be
        except ValueError:
            raise self.error(JWKS_URL, f"it is no URL; {wanted}") from None
        if parts.username is not None or parts.password is not None:
            raise self.error(JWKS_URL, "it must not have a user or a password in it")
        if parts.scheme == "https" and parts.hostname and has_port:
            return text
        path, is_here = unquote(parts.path), parts.netloc in ("", "localhost")
        if parts.scheme == "file" and is_here and path.startswith("/") and "\0" not in path:
            return path
        if parts.scheme == "http":
            raise self.error(
                JWKS_URL,
                "over http anybody on the way could put keys of his own in the place of these; "
                f"{wanted}",
            )
        raise self.error(JWKS_URL, f"it is no URL that is served; {wanted}")
