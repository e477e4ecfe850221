"""What keys of the ensemble cannot be used is said at the start, with the key and without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.network.real_tls import RealTls
from broker.server.zk.ensemble_settings import EnsembleTls, ensemble_access
from tests.certificates import Authority

LOGIN = "java.security.auth.login.config"
ENABLE = "zookeeper.ssl.client.enable"
STORE = "zookeeper.ssl.keystore.location"
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
MARK = "secret-mark"


def written(folder: Path, text: str) -> str:
    path = folder / "login.jaas"
    path.write_text(text)
    return str(path)


def stores(folder: Path, name: str = "broker") -> dict[str, str]:
    authority = Authority()
    store = authority.signed(name).store(folder, name)
    return {ENABLE: "true", STORE: str(store), "zookeeper.ssl.truststore.location": str(authority.file(folder))}


def read(keys: dict[str, str]) -> object:
    return ensemble_access(BrokerConfig.from_mapping(keys), RealTls())


def test_a_login_is_that_of_the_section_that_is_named(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f'KafkaServer {{ a required; b required; }}; Client {{ {MODULE} required username="u" password="{MARK}"; }};'
        f'Other {{ {MODULE} required username="o" password="p"; }};',
    )
    access = ensemble_access(BrokerConfig.from_mapping({LOGIN: path}), RealTls())
    assert access.login is not None
    assert (access.login.username, access.login.password, access.sets_acls) == ("u", MARK, False)
    assert MARK not in repr(access)
    other = {LOGIN: path, "zookeeper.sasl.clientconfig": "Other", "zookeeper.set.acl": "true"}
    access = ensemble_access(BrokerConfig.from_mapping(other), RealTls())
    assert access.login is not None
    assert (access.login.username, access.sets_acls) == ("o", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'Server {{ {MODULE} required username="u" password="{MARK}"; }};', "no section Client .it has: Server."),
        (f'Client {{ {MODULE} required username="u"; }};', "must have username"),
        (f'Client {{ {MODULE} required username="u" password="{MARK}" }};', "or ; must"),
        (f'Client {{ com.sun.Krb5LoginModule required keyTab="{MARK}"; }};', "Krb5LoginModule; .*is served"),
        (f'Client {{ {MODULE} required a="{MARK}"; {MODULE} required; }};', "one login module only"),
    ],
)
def test_a_file_without_a_login_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read({LOGIN: written(tmp_path, text)})
    assert MARK not in str(refused.value)
    with pytest.raises(ConfigError, match="it cannot be read: No such file"):
        read({LOGIN: str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"zookeeper.ssl.crl.enable": "true"}, "withdrawn certificates are not looked up"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, "withdrawn certificates are not looked up"),
        ({"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "which knows no TLS"),
        ({"zookeeper.ssl.keystore.type": "JKS"}, "zookeeper.ssl.keystore.type: it is JKS"),
        ({"zookeeper.ssl.truststore.type": "PKCS12"}, "zookeeper.ssl.truststore.location: .*no PKCS#12"),
        ({"zookeeper.ssl.cipher.suites": "TLS_NONE"}, "zookeeper.ssl.cipher.suites: TLS_NONE is not served"),
        ({"zookeeper.ssl.endpoint.identification.algorithm": "ldap"}, "HTTPS, or empty"),
        ({STORE: "/nowhere.pem"}, "zookeeper.ssl.keystore.location: /nowhere.pem: it cannot be read"),
    ],
)
def test_keys_of_tls_that_cannot_be_used_are_refused(tmp_path: Path, keys: dict[str, str], said: str) -> None:
    assert ensemble_access(BrokerConfig.from_mapping(stores(tmp_path)), RealTls()).connect is not None
    with pytest.raises(ConfigError, match=said):
        read({**stores(tmp_path), **keys})


def test_owned_nodes_need_somebody_who_owns_them(tmp_path: Path) -> None:
    """As Kafka, which does not start then either."""
    keys = {"zookeeper.set.acl": "true"}
    with pytest.raises(ConfigError, match="does not say to ZooKeeper who it is"):
        read(keys)
    with pytest.raises(ConfigError, match="does not say to ZooKeeper who it is"):
        read({**keys, **stores(tmp_path), ENABLE: "false"})


def test_a_replaced_certificate_counts_for_the_next_connection_and_a_broken_one_does_not(tmp_path: Path) -> None:
    keys = stores(tmp_path)
    tls = EnsembleTls(BrokerConfig.from_mapping(keys), RealTls())
    first = tls.context()
    assert tls.context() is first
    Path(keys[STORE]).write_text("no certificate")
    assert tls.context() is first
    keys = stores(tmp_path)
    assert tls.context() is not first
