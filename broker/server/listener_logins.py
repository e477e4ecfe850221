"""Who may log in at which listener, and what this process logs in with at others, by its settings.

In: configuration and the listeners. Out: `LoginSettings` by listener, `SaslLogin`s. Raises
ConfigError, which names the key and has no secret of it. Never: a listener that asks for what is
not served.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.config.key import ConfigError
from broker.config.keys_security import LISTENER_PREFIX
from broker.config.views import JAAS, BrokerConfig
from broker.security.logins import LoginSettings
from broker.security.security_protocol import SecurityProtocol
from broker.server.listener_kerberos import kerberos_login, kerberos_server
from broker.server.listener_tokens import ListenerTokens
from broker.server.listeners import ListenerAddress, inter_broker_listener
from bus.client.wire.sasl import SaslLogin
from bus.security.gssapi_sasl import GSSAPI
from bus.security.jaas import JaasError, LoginModule, parse_jaas
from bus.security.sasl_server import OAUTHBEARER, PLAIN, SCRAM_BY_TITLE, SERVED_MECHANISMS

ENABLED = "sasl.enabled.mechanisms"
OF_NODES = (PLAIN, *SCRAM_BY_TITLE, GSSAPI)
"""By which nodes log in at others: for a token they would need a service that is up whenever a
cluster starts."""


def login_settings(
    config: BrokerConfig, listeners: Iterable[ListenerAddress]
) -> dict[str, LoginSettings]:
    """Of each listener with SASL, by its name."""
    return {one.name: _settings(config, one.name) for one in listeners if one.protocol.has_sasl}


def _settings(config: BrokerConfig, listener: str) -> LoginSettings:
    mechanisms: tuple[str, ...] = config.of_listener(listener, ENABLED)
    for one in mechanisms:
        if one not in SERVED_MECHANISMS:
            raise ConfigError(
                ENABLED,
                f"{ENABLED} of the listener {listener} names {one}; served are "
                f"{', '.join(SERVED_MECHANISMS)}",
            )
    if not mechanisms:
        raise ConfigError(ENABLED, f"{ENABLED} of the listener {listener} names no mechanism")
    passwords: dict[str, str] = {}
    if PLAIN in mechanisms:
        module = _module(config, listener, PLAIN)
        passwords = module.users if module else {}
        if not passwords:
            raise ConfigError(
                JAAS,
                f"{ENABLED} of the listener {listener} names PLAIN, but no user is named; set "
                f"{_key(listener, PLAIN)}="
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="…";',
            )
    tokens = None
    if OAUTHBEARER in mechanisms:
        module = _module(config, listener, OAUTHBEARER)
        tokens = ListenerTokens(config, listener).settings(module)
    gssapi = None
    if GSSAPI in mechanisms:
        key, module = _key(listener, GSSAPI), _module(config, listener, GSSAPI)
        gssapi = kerberos_server(config, listener, key, module)
    lifetime_ms = config.of_listener(listener, "connections.max.reauth.ms")
    return LoginSettings(mechanisms, passwords, lifetime_ms, tokens, gssapi)


def peer_login(config: BrokerConfig, listeners: Sequence[ListenerAddress]) -> SaslLogin | None:
    """What brokers log in with at each other's inter-broker listener; None: it has no SASL."""
    listener = inter_broker_listener(listeners, config)
    if listener is None or not listener.protocol.has_sasl:
        return None
    return _login(config, listener.name, "sasl.mechanism.inter.broker.protocol", OF_NODES)


def controller_login(
    config: BrokerConfig, listener: str, protocol: SecurityProtocol
) -> SaslLogin | None:
    """What this process logs in with at controllers. SCRAM's credentials are in the metadata, which
    cannot be read before: only PLAIN and GSSAPI are possible."""
    if not protocol.has_sasl:
        return None
    return _login(config, listener, "sasl.mechanism.controller.protocol", (PLAIN, GSSAPI))


def _login(
    config: BrokerConfig, listener: str, mechanism_key: str, possible: tuple[str, ...]
) -> SaslLogin:
    mechanism: str = config[mechanism_key]
    if mechanism not in possible:
        raise ConfigError(
            mechanism_key,
            f"{mechanism_key} is {mechanism}, but the listener {listener} asks for a login by "
            f"{' or '.join(possible)}",
        )
    module = _module(config, listener, mechanism)
    if mechanism == GSSAPI:
        return kerberos_login(config, listener, _key(listener, mechanism), module)
    options = module.options if module else {}
    if not options.get("username") or not options.get("password"):
        raise ConfigError(
            JAAS,
            f"{_key(listener, mechanism)} must have username=\"…\" and password=\"…\": with them "
            f"this node logs in at the listener {listener} of others",
        )
    return SaslLogin(mechanism, options["username"], options["password"])


def _module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    text = config.jaas_text(listener, mechanism)
    if text is None:
        return None
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise ConfigError(JAAS, f"{_key(listener, mechanism)}: {error}") from None


def _key(listener: str, mechanism: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
