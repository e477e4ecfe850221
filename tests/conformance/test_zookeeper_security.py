"""Apache Kafka 3.9 and we on one ZooKeeper that asks for a login: whose nodes are whose.

Both make the same things, each in a tree of its own; then each goes on with the other's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from broker.server.process import secure_zookeeper
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.kafka_on_zookeeper import run_security_migration, start_kafka_on_zookeeper
from tests.secured_zookeeper import LOGIN_FILE, Acls, SecuredZooKeeper, secured_zookeeper

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]

DEADLINE_S = 60.0
POLL_S = 0.1
OWNED = {(31, "sasl", "kafka"), (1, "world", "anyone")}
COMMON = {
    "broker.id": "1",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret-of-tokens",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    """Asks for a login on one port, for a certificate on the other."""
    with secured_zookeeper(tmp_path_factory.mktemp("zookeeper-of-both")) as running:
        yield running


def fill(bootstrap: str) -> None:
    """One of each kind of node."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("made", 1, 1)])["made"].result(DEADLINE_S)
    entry = ConfigEntry(
        "retention.ms", "777000", incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ConfigResource.Type.TOPIC, "made", incremental_configs=[entry])
    entry = ConfigEntry(
        "log.cleaner.threads", "1", incremental_operation=AlterConfigOpType.SET
    )
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    for resource in (topic, broker):
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    credential = UserScramCredentialUpsertion(
        "camera", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"camera-secret"
    )
    admin.alter_user_scram_credentials([credential])["camera"].result(DEADLINE_S)
    binding = AclBinding(
        ResourceType.TOPIC, "made", ResourcePatternType.LITERAL, "User:camera", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([binding])[binding].result(DEADLINE_S)


def await_topic(bootstrap: str) -> None:
    """A broker may serve a moment before its controller has told it of all topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + DEADLINE_S
    while "made" not in admin.list_topics(timeout=DEADLINE_S).topics:
        assert time.monotonic() < deadline, "the topic is not known"
        time.sleep(POLL_S)


def kafka_writes(
    ensemble: SecuredZooKeeper, folder: Path, root: str, found: list[Acls] | None = None
) -> None:
    """Apache Kafka starts on this tree, fills it or finds it filled, and ends."""
    try:
        server = start_kafka_on_zookeeper(
            folder, ensemble.login_address + root,
            settings={**COMMON, "zookeeper.set.acl": "true"},
            options=(f"-D{LOGIN_FILE}={ensemble.login_file()}",),
        )  # fmt: skip
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 3.9: {missing}")
    with server:
        if found is None:
            await_topic(server.address)
        else:
            fill(server.address)
            found.append(ensemble.acls(root))


def ours_write(
    ensemble: SecuredZooKeeper, folder: Path, root: str, found: list[Acls] | None = None
) -> None:
    """So does our broker."""
    broker = start_broker(folder, {
        **COMMON, "metrics.port": "-1", "zookeeper.connect": ensemble.login_address + root,
        "zookeeper.set.acl": "true", LOGIN_FILE: str(ensemble.login_file()),
    })  # fmt: skip
    try:
        if found is None:
            await_topic(broker.bootstrap)
        else:
            fill(broker.bootstrap)
            found.append(ensemble.acls(root))
    finally:
        assert broker.stop() == 0


def test_every_node_has_the_same_entries_and_each_goes_on_with_the_others_tree(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    """No node of Kafka's is missing in ours, and none of ours in Kafka's."""
    theirs: list[Acls] = []
    ours: list[Acls] = []
    kafka_writes(ensemble, tmp_path / "kafka", "/theirs", theirs)
    ours_write(ensemble, tmp_path / "ours", "/ours", ours)
    (expected,), (found,) = theirs, ours
    assert "/kafka-acl/Topic/made" in found
    assert "/config/users/camera" in found
    assert sorted(set(expected) ^ set(found)) == []
    assert {path: (found[path], entries) for path, entries in expected.items()
            if found[path] != entries} == {}  # fmt: skip
    ours_write(ensemble, tmp_path / "ours-on-theirs", "/theirs")
    kafka_writes(ensemble, tmp_path / "kafka-on-ours", "/ours")


def test_a_standing_tree_is_given_away_as_kafkas_tool_does_it(
    ensemble: SecuredZooKeeper, tmp_path: Path
) -> None:
    """Two open trees; Kafka's tool goes through one, ours through the other. A broker starts on what
    Kafka's tool has left."""
    found = {}
    login = {LOGIN_FILE: str(ensemble.login_file())}
    for name in ("by-kafka", "by-us"):
        broker = start_broker(tmp_path / name, {
            **COMMON, "metrics.port": "-1", "zookeeper.connect": f"{ensemble.login_address}/{name}",
        })  # fmt: skip
        fill(broker.bootstrap)
        assert broker.stop() == 0
    address = f"{ensemble.login_address}/by-kafka"
    done = run_security_migration(
        ["--zookeeper.acl", "secure", "--zookeeper.connect", address],
        [f"-D{LOGIN_FILE}={login[LOGIN_FILE]}"],
    )
    assert done.returncode == 0, done.stderr
    keys = {**login, "zookeeper.connect": f"{ensemble.login_address}/by-us"}
    assert secure_zookeeper(keys, tmp_path, is_secure=True) == 0
    found = {name: ensemble.acls(f"/{name}") for name in ("by-kafka", "by-us")}
    assert {entry for entries in found["by-us"].values() for entry in entries} >= OWNED
    assert sorted(found["by-us"].items()) == sorted(found["by-kafka"].items())
    ours_write(ensemble, tmp_path / "again", "/by-kafka")
