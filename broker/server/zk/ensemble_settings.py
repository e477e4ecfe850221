"""How this broker says to its ensemble who it is: Kafka's keys `zookeeper.…`, the files they name.

In: configuration, OpenSSL. Out: `EnsembleAccess`. Raises ConfigError, which names the key and has
no secret. Never: a connection.

The keys `java.security.auth.login.config` and `zookeeper.sasl.clientconfig` have the names and the
meaning of Java's system properties, of which there are none here.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import PurePath

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.controller.zk.ensemble_access import EnsembleAccess, EnsembleLogin
from broker.network.port import TlsKeys, TlsPort
from broker.security.key_stores import JKS, PEM, PKCS12, KeyStoreError
from broker.server.tls_stores import TlsStores
from bus.security.jaas import JaasError, LoginModule, parse_jaas_file

log = logging.getLogger("broker.server")

PREFIX = "zookeeper."
ENABLE = "zookeeper.ssl.client.enable"
SOCKET = "zookeeper.clientCnxnSocket"
SET_ACL = "zookeeper.set.acl"
LOGIN_FILE = "java.security.auth.login.config"
SECTION = "zookeeper.sasl.clientconfig"
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
NOT_SERVED = ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable")
_STORE_KEYS = {
    "ssl.keystore.location": "zookeeper.ssl.keystore.location",
    "ssl.keystore.type": "zookeeper.ssl.keystore.type",
    "ssl.keystore.password": "zookeeper.ssl.keystore.password",
    "ssl.key.password": "zookeeper.ssl.keystore.password",
    "ssl.truststore.location": "zookeeper.ssl.truststore.location",
    "ssl.truststore.type": "zookeeper.ssl.truststore.type",
    "ssl.truststore.password": "zookeeper.ssl.truststore.password",
}
"""What `TlsStores` asks for, of the keys that there are for the ensemble."""
_KIND_OF_SUFFIX = {".jks": JKS, ".pem": PEM, ".p12": PKCS12, ".pkcs12": PKCS12}


def ensemble_access(config: BrokerConfig, factory: TlsPort | None) -> EnsembleAccess:
    """Raises ConfigError where the keys contradict each other, or a file cannot be used."""
    has_tls, sets_acls = bool(config[ENABLE]), bool(config[SET_ACL])
    login = _login(config, factory)
    has_certificate = has_tls and bool(config["zookeeper.ssl.keystore.location"])
    if sets_acls and login is None and not has_certificate:
        raise ConfigError(
            SET_ACL,
            f"{SET_ACL} is true, but this broker does not say to ZooKeeper who it is: name a file"
            f" with a login in {LOGIN_FILE}, or set {ENABLE} and zookeeper.ssl.keystore.location",
        )
    tls = EnsembleTls(config, _needed(factory, ENABLE)) if has_tls else None
    return EnsembleAccess(login, tls.connect if tls is not None else None, sets_acls)


class EnsembleTls:
    """TLS to the ensemble, as the keys and the newest files say it.

    Invariant: `_context` was made of files without a fault; `_stamps` are those that were looked at
    last, with or without one.
    """

    def __init__(self, config: BrokerConfig, factory: TlsPort) -> None:
        """Raises ConfigError."""
        _check_served(config)
        self._config, self._factory = config, factory
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._context = self._load()

    def connect(
        self, address: tuple[str, int], server_name: str, timeout_s: float | None
    ) -> ssl.SSLSocket:
        """With the files as they are now. Raises OSError."""
        return self._factory.connect(self.context(), address, server_name, timeout_s)

    def context(self) -> ssl.SSLContext:
        """Of the next connection. Reads files that have changed."""
        stamp = self._factory.stamp
        if any(stamp(path) != seen for path, seen in self._stamps.items()):
            try:
                self._context = self._load()
            except ConfigError as error:
                log.error("the former certificate for ZooKeeper stays in force: %s", error)
        return self._context

    def _load(self) -> ssl.SSLContext:
        stores = TlsStores(self._value, _error, self._factory)
        try:
            keys = TlsKeys(
                stores.key_store(), stores.trust_store(), *self._suites(stores),
                checks_name=_checks_name(self._config),
            )  # fmt: skip
            return self._factory.client_context(keys)
        except KeyStoreError as error:
            raise _error("ssl.keystore.location", str(error)) from None
        finally:
            self._stamps = stores.stamps

    def _suites(self, stores: TlsStores) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Versions, and OpenSSL's names of suites."""
        config = self._config
        versions = tuple(
            config["zookeeper.ssl.enabled.protocols"] or (config["zookeeper.ssl.protocol"],)
        )
        return stores.suites(versions, tuple(config["zookeeper.ssl.cipher.suites"] or ()))

    def _value(self, name: str) -> str | None:
        """As `TlsStores` asks for it: there are no texts, one password is that of store and key,
        and a type that is not set is that of the file's name."""
        if name not in _STORE_KEYS:
            return None
        found: str | None = self._config[_STORE_KEYS[name]] or None
        if found is None and name.endswith(".type"):
            path = self._value(name.removesuffix("type") + "location") or ""
            return _KIND_OF_SUFFIX.get(PurePath(path).suffix.lower())
        return found


def _error(name: str, reason: str) -> ConfigError:
    return ConfigError(PREFIX + name, f"{PREFIX}{name}: {reason}")


def _check_served(config: BrokerConfig) -> None:
    for name in NOT_SERVED:
        if config[name]:
            raise ConfigError(
                name,
                f"{name} is true, but withdrawn certificates are not looked up here; leave it out,"
                " and withdraw a certificate by changing its authority",
            )
    if (config[SOCKET] or "").endswith("NIO"):
        raise ConfigError(
            SOCKET,
            f"{SOCKET} is ClientCnxnSocketNIO, which knows no TLS, but {ENABLE} is true; leave it"
            " out, or name org.apache.zookeeper.ClientCnxnSocketNetty",
        )


def _checks_name(config: BrokerConfig) -> bool:
    name = "zookeeper.ssl.endpoint.identification.algorithm"
    wanted = config[name].lower()
    if wanted not in ("https", ""):
        raise ConfigError(name, f"{name} is {wanted}; HTTPS, or empty")
    return bool(wanted)


def _login(config: BrokerConfig, factory: TlsPort | None) -> EnsembleLogin | None:
    path = config[LOGIN_FILE]
    if not path:
        return None
    section = config[SECTION]
    module = _module(path, section, _needed(factory, LOGIN_FILE))
    if module.name != DIGEST_MODULE:
        raise ConfigError(
            LOGIN_FILE,
            f"{path}: the login module of {section} is {module.name}; {DIGEST_MODULE} is served, or"
            " certificates",
        )
    username, password = module.options.get("username"), module.options.get("password")
    if not username or not password:
        raise ConfigError(
            LOGIN_FILE, f'{path}: {section} must have username="…" and password="…"'
        )
    return EnsembleLogin(username, password)


def _module(path: str, section: str, factory: TlsPort) -> LoginModule:
    try:
        sections = parse_jaas_file(factory.read(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(LOGIN_FILE, f"{path}: it is no text in UTF-8") from None
    except (KeyStoreError, JaasError) as error:
        raise ConfigError(LOGIN_FILE, f"{path}: {error}") from None
    if section not in sections:
        names = ", ".join(sorted(sections)) or "none"
        raise ConfigError(
            LOGIN_FILE,
            f"{path} has no section {section} (it has: {names}); {SECTION} names another",
        )
    if len(sections[section]) != 1:
        raise ConfigError(LOGIN_FILE, f"{path}: {section} must have one login module only")
    return sections[section][0]


def _needed(factory: TlsPort | None, key: str) -> TlsPort:
    if factory is None:
        raise ConfigError(key, "there is no TLS here, and no file is read")
    return factory
