"""TLS of the listeners of this process, and of its connections to those of others, by the settings.

In: configuration, the files that it names. Out: `TlsServer`s, `ClientTls`. Raises ConfigError,
which names the key and has no secret. Never: new files that cannot be used in the place of those in
force.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.x509 import load_der_x509_certificate

from broker.config.key import ConfigError
from broker.config.keys_security import LISTENER_PREFIX
from broker.config.keys_tls import NAMES
from broker.config.views import BrokerConfig
from broker.network.port import TlsKeys, TlsPort
from broker.security.cipher_suites import CipherError, openssl_names, versions_left
from broker.security.distinguished_name import distinguished_name
from broker.security.key_stores import (
    JKS,
    PEM,
    PKCS12,
    KeyStore,
    KeyStoreError,
    TrustStore,
    is_of_java,
    keytool_line,
    pem_key_store,
    pem_trust_store,
    pkcs12_key_store,
    pkcs12_trust_store,
)
from broker.security.principal import ANONYMOUS, Principal
from broker.security.principal_rules import MappingRuleError, PrincipalRules, parse_principal_rules
from bus.errors import CloseConnection

log = logging.getLogger("broker.network")

KEY_STORE, TRUST_STORE = "keystore", "truststore"
NONE = "none"


class ListenerStores:
    """Reads what the keys of one listener name.

    Invariant: `stamps` has the files that were read, whether they can be used or not, as they were
    before.
    """

    def __init__(self, config: BrokerConfig, listener: str, factory: TlsPort) -> None:
        self._config, self._listener, self._factory = config, listener, factory
        self.stamps: dict[str, tuple[int, ...]] = {}

    def value(self, name: str) -> str | None:
        """Of this listener; None and empty are the same for all keys of stores."""
        found: str | None = self._config.of_listener(self._listener, name)
        return found or None

    def key_store(self) -> KeyStore | None:
        """None: no key names one."""
        key, chain = self.value("ssl.keystore.key"), self.value("ssl.keystore.certificate.chain")
        password = self.value("ssl.key.password")
        kind, path = self._kind(KEY_STORE, has_text=bool(key or chain))
        if path is None and key is None:
            return None
        try:
            if path is None:
                if kind != PEM or chain is None or key is None:
                    raise KeyStoreError(
                        "it needs ssl.keystore.type=PEM and ssl.keystore.certificate.chain"
                    )
                return pem_key_store(key.encode(), chain.encode(), password)
            data = self._read(path, KEY_STORE)
            if kind == PEM:
                return pem_key_store(data, data, password)
            return pkcs12_key_store(data, self.value("ssl.keystore.password"))
        except KeyStoreError as error:
            name = "ssl.keystore.key" if path is None else "ssl.keystore.location"
            raise self.error(name, f"{path or ''}: {error}".removeprefix(": ")) from None

    def trust_store(self) -> TrustStore | None:
        """None: no key names one."""
        text = self.value("ssl.truststore.certificates")
        kind, path = self._kind(TRUST_STORE, has_text=bool(text))
        if path is None and text is None:
            return None
        try:
            if path is None:
                if kind != PEM:
                    raise KeyStoreError("it needs ssl.truststore.type=PEM")
                return pem_trust_store((text or "").encode())
            data = self._read(path, TRUST_STORE)
            if kind == PEM:
                return pem_trust_store(data)
            return pkcs12_trust_store(data, self.value("ssl.truststore.password"))
        except KeyStoreError as error:
            name = "ssl.truststore.certificates" if path is None else "ssl.truststore.location"
            raise self.error(name, f"{path or ''}: {error}".removeprefix(": ")) from None

    def material(self, *, is_server: bool) -> TlsKeys:
        """Everything that a context needs. Raises ConfigError."""
        versions: tuple[str, ...] = self._config.of_listener(
            self._listener, "ssl.enabled.protocols"
        )
        suites: tuple[str, ...] = self._config.of_listener(self._listener, "ssl.cipher.suites")
        try:
            ciphers, versions = openssl_names(suites), versions_left(versions, suites)
        except CipherError as error:
            raise self.error("ssl.cipher.suites", str(error)) from None
        if not versions:
            raise self.error("ssl.enabled.protocols", "no version is left with a suite of its own")
        client_auth: str = self._config.of_listener(self._listener, "ssl.client.auth")
        key_store, trust_store = self.key_store(), self.trust_store()
        if is_server and key_store is None:
            raise self.error("ssl.keystore.location", "a listener with TLS needs a certificate")
        if is_server and client_auth != NONE and trust_store is None:
            raise self.error(
                "ssl.truststore.location",
                f"ssl.client.auth is {client_auth}, but nothing says whose certificates are good",
            )
        return TlsKeys(
            key_store,
            trust_store,
            versions,
            ciphers,
            client_auth,
            bool(self.value("ssl.endpoint.identification.algorithm")),
        )

    def rules(self) -> PrincipalRules:
        """Raises ConfigError."""
        name = "ssl.principal.mapping.rules"
        try:
            return parse_principal_rules(self._config.of_listener(self._listener, name))
        except MappingRuleError as error:
            raise self.error(name, str(error)) from None

    def error(self, name: str, reason: str) -> ConfigError:
        """Which listener's key it is, and what is wrong with it."""
        return ConfigError(name, f"{LISTENER_PREFIX}{self._listener.lower()}.{name}: {reason}")

    def _kind(self, store: str, *, has_text: bool) -> tuple[str, str | None]:
        path = self.value(f"ssl.{store}.location")
        kind = (self.value(f"ssl.{store}.type") or JKS).upper()
        if path is None and not has_text:
            return kind, None
        if kind == JKS:
            raise self.error(
                f"ssl.{store}.type",
                "it is JKS (Kafka's default), which only Java reads; set PEM or PKCS12"
                + (f", and convert the file: {keytool_line(path, store)}" if path else ""),
            )
        if kind not in (PEM, PKCS12):
            raise self.error(f"ssl.{store}.type", f"{kind} is not served; PEM and PKCS12 are")
        return kind, path

    def _read(self, path: str, store: str) -> bytes:
        self.stamps[path] = self._factory.stamp(path)
        data = self._factory.read(path)
        if is_of_java(data):
            raise KeyStoreError(f"it is JKS, which only Java reads: {keytool_line(path, store)}")
        return data


@dataclass(frozen=True, slots=True)
class ReadTls:
    """What is in force."""

    context: ssl.SSLContext
    rules: PrincipalRules


class ListenerTlsSettings:
    """TLS of one listener as its newest keys and files say. Implements `TlsServer`.

    Invariant: `_loaded` was made of settings without a fault; `_values` and `_stamps` are those
    that were looked at last, with or without one.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        listener: str,
        factory: TlsPort,
        *,
        is_server: bool,
    ) -> None:
        """Raises ConfigError."""
        self._config, self._listener, self._factory = config, listener, factory
        self._is_server = is_server
        self._values: list[object] = []
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._loaded = self._load()

    @property
    def context(self) -> ssl.SSLContext:
        """Of the next connection."""
        return self._loaded.context

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Whose certificate (DER) it is."""
        if certificate is None:
            return ANONYMOUS
        subject = load_der_x509_certificate(certificate).subject
        name = distinguished_name(subject.public_bytes())
        user = self._loaded.rules.user(name)
        if user is None:
            raise CloseConnection(f"ssl.principal.mapping.rules has none for {name}")
        return Principal(ANONYMOUS.kind, user)

    def refresh(self) -> None:
        """Take what has changed since the last time, for connections from now on."""
        stamp = self._factory.stamp
        if self._values == self._current_values() and all(
            stamp(path) == seen for path, seen in self._stamps.items()
        ):
            return
        try:
            self._loaded = self._load()
        except ConfigError as error:
            log.error("the former certificates of the listener %s stay in force: %s",
                      self._listener, error)  # fmt: skip

    def _current_values(self) -> list[object]:
        config = self._config()
        values: list[object] = []
        for name in sorted(NAMES):
            try:
                values.append(config.of_listener(self._listener, name))
            except ConfigError as error:
                values.append(str(error))
        return values

    def _load(self) -> ReadTls:
        self._values = self._current_values()
        stores = ListenerStores(self._config(), self._listener, self._factory)
        try:
            material = stores.material(is_server=self._is_server)
            make = self._factory.server_context if self._is_server else self._factory.client_context
            loaded = ReadTls(make(material), stores.rules())
        except KeyStoreError as error:
            raise stores.error("ssl.keystore.location", str(error)) from None
        finally:
            self._stamps = stores.stamps
        if material.key_store is not None and self._is_server:
            log.info("the listener %s shows a certificate that ends at %s", self._listener,
                     material.key_store.ends)  # fmt: skip
        return loaded
