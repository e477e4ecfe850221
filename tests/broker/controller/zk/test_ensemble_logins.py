"""A broker says to ZooKeeper who it is, by a password or by a certificate; a real ensemble asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from broker.server.process import migrate_controller, secure_zookeeper
from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker
from tests.certificates import Authority
from tests.secured_zookeeper import (
    LOGIN_FILE,
    PASSWORD,
    SecuredZooKeeper,
    chroot_of,
    secured_zookeeper,
)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(180)]

DEADLINE_S = 60.0
WORLD = "world"
OURS = {"metrics.port": "-1", "offsets.topic.replication.factor": "1", "broker.id": "1"}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """Asks for a login on one port, for a certificate on the other."""
    with secured_zookeeper(tmp_path_factory.mktemp("secured-zookeeper")) as running:
        yield running


def start(folder: Path, connect: str, keys: dict[str, str]) -> RunningBroker:
    return start_broker(
        folder, {**OURS, "listeners": "PLAINTEXT://127.0.0.1:0", "zookeeper.connect": connect, **keys}
    )


def make_topic(broker: RunningBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_S)


def writers(ensemble: SecuredZooKeeper, root: str, path: str) -> set[str]:
    """Who may do more than read a node."""
    return {f"{scheme}:{one}" for perms, scheme, one in ensemble.acls(root)[path] if perms != 1}


def test_a_broker_with_the_login_of_a_file_owns_what_it_makes(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    root = chroot_of(tmp_path)
    keys = {LOGIN_FILE: str(ensemble.login_file()), "zookeeper.set.acl": "true"}
    broker = start(tmp_path, ensemble.login_address + root, keys)
    try:
        make_topic(broker, "t")
        for path in ("/", "/brokers/topics/t/partitions/0/state", "/brokers/ids/1", "/controller"):
            assert writers(ensemble, root, path) == {"sasl:kafka"}
        assert writers(ensemble, root, "/consumers") == {"world:anyone"}
        stranger = KazooClient(hosts=ensemble.login_address + root)
        stranger.start()
        try:
            assert stranger.get("/brokers/topics/t")[0]
            for path in ("/config/users", "/config/brokers"):
                with pytest.raises(NoAuthError):
                    stranger.get(path)
            with pytest.raises(NoAuthError):
                stranger.create("/brokers/topics/theirs", b"{}")
        finally:
            stranger.stop()
            stranger.close()
    finally:
        assert broker.stop() == 0
    assert PASSWORD not in broker.log_path.read_text(encoding="utf-8")


def test_a_broker_with_a_certificate_owns_what_it_makes(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    root = chroot_of(tmp_path)
    keys = {**ensemble.with_certificate("brokers"), "zookeeper.set.acl": "true"}
    broker = start(tmp_path, ensemble.tls_address + root, keys)
    try:
        make_topic(broker, "t")
        with ensemble.tool(root) as client:
            entries, _ = client.get_acls("/brokers/topics/t")
            assert {(one.perms, one.id.scheme, one.id.id) for one in entries} == {
                (31, "x509", "CN=brokers"), (1, WORLD, "anyone"),
            }  # fmt: skip
    finally:
        assert broker.stop() == 0


def test_stores_of_pkcs12_and_tls_1_3_do_as_well(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    password = "store-secret"
    store, trust = tmp_path / "own.p12", tmp_path / "trust.p12"
    store.write_bytes(ensemble.authority.signed("brokers").pkcs12(password))
    trust.write_bytes(ensemble.authority.trust_pkcs12(password))
    keys = ensemble.keys(
        store, keystore_password=password, truststore_location=str(trust),
        truststore_password=password, enabled_protocols="TLSv1.3",
    )  # fmt: skip
    broker = start(tmp_path / "broker", ensemble.tls_address + chroot_of(tmp_path), keys)
    assert broker.stop() == 0


def test_a_wrong_password_keeps_a_broker_from_starting_and_says_so(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    keys = {LOGIN_FILE: str(ensemble.login_file("another"))}
    with pytest.raises(BrokerStartError, match="refuses the login of kafka") as refused:
        start(tmp_path, ensemble.login_address, keys)
    assert "another\n" not in str(refused.value)
    assert "Traceback" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("expired", "did not answer within 2000 ms.*CERTIFICATE"),
        ("another authority's", "did not answer within 2000 ms.*CERT"),
        ("none", "did not answer within 2000 ms.*CERT|HANDSHAKE_FAILURE"),
        ("of a server that we do not trust", "did not answer within 2000 ms.*VERIFY_FAILED"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said_when_the_time_to_connect_is_over(
    ensemble: SecuredZooKeeper, tmp_path: Path, kind: str, said: str
) -> None:
    other = Authority("other")
    if kind == "expired":
        gone = ensemble.authority.signed("brokers", left=timedelta(days=-1))
        keys = ensemble.keys(gone.store(tmp_path, "gone"))
    elif kind == "another authority's":
        keys = ensemble.keys(other.signed("brokers").store(tmp_path, "other"))
    elif kind == "none":
        keys = ensemble.keys(tmp_path)
        del keys["zookeeper.ssl.keystore.location"]
    else:
        keys = ensemble.with_certificate("brokers")
        keys["zookeeper.ssl.truststore.location"] = str(other.file(tmp_path))
    keys["zookeeper.connection.timeout.ms"] = "2000"
    with pytest.raises(BrokerStartError, match=said) as refused:
        start(tmp_path / "broker", ensemble.tls_address, keys)
    assert "Traceback" not in str(refused.value)


def test_a_tree_of_another_login_is_refused_with_a_sentence(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    root = chroot_of(tmp_path)
    keys = {LOGIN_FILE: str(ensemble.login_file()), "zookeeper.set.acl": "true"}
    assert start(tmp_path / "first", ensemble.login_address + root, keys).stop() == 0
    with pytest.raises(BrokerStartError, match="another login made this node") as refused:
        start(tmp_path / "second", ensemble.login_address + root, {})
    assert "Traceback" not in str(refused.value)


def test_a_standing_tree_is_given_to_the_login_and_opened_again(
    ensemble: SecuredZooKeeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brokers go on: they have the login already, and make new nodes as the tool has made theirs."""
    root = chroot_of(tmp_path)
    keys = {LOGIN_FILE: str(ensemble.login_file()), "zookeeper.connect": ensemble.login_address + root}
    broker = start(tmp_path / "broker", keys["zookeeper.connect"], keys)
    try:
        make_topic(broker, "before")
        assert writers(ensemble, root, "/brokers/topics/before") == {"world:anyone"}
        assert secure_zookeeper(keys, tmp_path, is_secure=True) == 0
        assert writers(ensemble, root, "/brokers/topics/before") == {"sasl:kafka"}
        make_topic(broker, "meanwhile")
        assert secure_zookeeper(keys, tmp_path, is_secure=False) == 0
        found = ensemble.acls(root)
        assert {one for entries in found.values() for one in entries} == {(31, WORLD, "anyone")}
    finally:
        assert broker.stop() == 0
    assert "open to everybody" in capsys.readouterr().out


def test_the_move_to_kraft_reads_a_tree_that_asks_for_the_login(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    root = chroot_of(tmp_path)
    address = ensemble.login_address + root
    login = {LOGIN_FILE: str(ensemble.login_file())}
    broker = start(tmp_path, address, {**login, "zookeeper.set.acl": "true"})
    make_topic(broker, "moved")
    assert broker.stop() == 0
    kraft = {
        "node.id": "1", "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9",
        "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "1@127.0.0.1:9",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }  # fmt: skip
    assert migrate_controller(kraft, tmp_path / "logs", address) == 1
    assert migrate_controller({**kraft, **login}, tmp_path / "logs", address) == 0
