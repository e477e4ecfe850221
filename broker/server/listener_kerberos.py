"""Kerberos of the listeners, by the settings: a keytab for clients that log in, and for this node.

In: configuration, the login module of a listener. Out: what begins a login, a `SaslLogin`. Raises
ConfigError, which names the key. Reads the keytab at the start, and at each login anew.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.key import ConfigError
from broker.config.views import JAAS, BrokerConfig
from broker.security.kerberos_names import LocalNameError, LocalNames, parse_local_names
from bus.client.wire.kerberos_login import KerberosLogin
from bus.security.gssapi_sasl import GSSAPI, GssapiExchange, GssError
from bus.security.jaas import LoginModule
from bus.security.kerberos import KerberosUnavailable, Keytab
from bus.security.sasl_server import NotAuthenticated

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
RULES = "sasl.kerberos.principal.to.local.rules"
SERVICE = "sasl.kerberos.service.name"


def kerberos_server(
    config: BrokerConfig, listener: str, key: str, module: LoginModule | None
) -> Callable[[], GssapiExchange]:
    """What begins a login of a client; `key` is that of the module. Raises ConfigError."""
    path, principal = _keytab(listener, key, module)
    try:
        keytab = Keytab(path, principal)
    except KerberosUnavailable as error:
        raise ConfigError(key, f"the listener {listener} asks for GSSAPI; {error}") from None
    except GssError as error:
        raise ConfigError(key, f"{key}: {path} cannot be used for {principal}: {error}") from None
    realm = keytab.principal.rpartition("@")[2]
    try:
        names = parse_local_names(config.of_listener(listener, RULES), realm)
    except LocalNameError as error:
        raise ConfigError(RULES, f"{RULES}: {error}") from None
    return lambda: GssapiExchange(keytab.accept, lambda name: _user(names, name))


def kerberos_login(
    config: BrokerConfig, listener: str, key: str, module: LoginModule | None
) -> KerberosLogin:
    """What this node logs in with at others. Raises ConfigError."""
    path, principal = _keytab(listener, key, module)
    service = config.of_listener(listener, SERVICE)
    if not service:
        raise ConfigError(
            SERVICE,
            f"{SERVICE} must be set: this node logs in by GSSAPI at the listener {listener} of "
            "others, whose principals are SERVICE/HOST",
        )
    try:
        return KerberosLogin(service, principal, path)
    except KerberosUnavailable as error:
        raise ConfigError(key, f"this node logs in by GSSAPI; {error}") from None


def _keytab(listener: str, key: str, module: LoginModule | None) -> tuple[str, str]:
    options = {} if module is None or module.name != MODULE else module.options
    path, principal = options.get("keyTab", ""), options.get("principal", "")
    if not path or not principal:
        raise ConfigError(
            JAAS,
            f"the listener {listener} asks for {GSSAPI}; set {key}={MODULE} required "
            'useKeyTab=true keyTab="…" principal="kafka/HOST@REALM";',
        )
    return path, principal


def _user(names: LocalNames, principal: str) -> str | None:
    try:
        return names.user(principal)
    except LocalNameError as error:
        raise NotAuthenticated(f"{principal}: {error}") from None
