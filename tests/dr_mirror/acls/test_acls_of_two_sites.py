"""Two clusters of Apache Kafka with authorizers: what an application may do at A it may do at B."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from deploy.errors import Unavailable
from deploy.servers.kafka import start_kafka
from deploy.servers.process import JavaServer
from tests.dr_mirror.two_sites import MirrorProcess, wait_until

pytestmark = [
    pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300),
    pytest.mark.rotates("records and offsets at an ordinary target"),
]  # fmt: skip

TOPIC = "data.guarded"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[JavaServer, JavaServer]]:
    try:
        source = start_kafka(tmp_path / "a", settings=AUTHORIZER, heap="384m")
        target = start_kafka(tmp_path / "b", settings=AUTHORIZER, heap="384m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with source, target:
        yield source, target


def allowed(
    user: str, operation: AclOperation, name: str = TOPIC,
    kind: ResourceType = ResourceType.TOPIC, pattern: ResourcePatternType = LITERAL,
) -> AclBinding:  # fmt: skip
    return AclBinding(
        kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW
    )


def held(admin: AdminClient) -> set[tuple[str, str, str]]:
    """Who may do what to what."""
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    return {
        (one.principal, one.operation.name, one.name)
        for one in admin.describe_acls(every).result(30)
    }


def test_readers_come_and_writers_do_not(sites: tuple[JavaServer, JavaServer], tmp_path: Path):
    """And a pattern, and one that only the target has, are told to the operator."""
    a, b = (AdminClient({"bootstrap.servers": each.address}) for each in sites)
    a.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    at_source = [
        allowed("app", AclOperation.READ), allowed("city", AclOperation.WRITE),
        allowed("chief", AclOperation.ALL),
        allowed("app", AclOperation.READ, "readers", ResourceType.GROUP),
        allowed("all", AclOperation.READ, "data.", pattern=PREFIXED),
    ]  # fmt: skip
    for done in a.create_acls(at_source).values():
        done.result(30)
    for done in b.create_acls([allowed("left", AclOperation.READ)]).values():
        done.result(30)
    mirror = MirrorProcess(
        tmp_path / "mirror", sites[0].address, sites[1].address, {"mirror.target_api": "produce"}
    ).start()
    try:
        wanted = {
            ("User:app", "READ", TOPIC), ("User:chief", "READ", TOPIC),
            ("User:app", "READ", "readers"), ("User:left", "READ", TOPIC),
        }  # fmt: skip
        wait_until(lambda: held(b) == wanted, "the ACLs are at the target")
        wait_until(lambda: len(mirror.status().acls.by_hand) == 1, "the status says so")
        told = mirror.command("status").stdout.replace("\n", "")
        assert "ALLOW READ TOPIC data.…: User:all" in told
        assert f"ALLOW READ TOPIC {TOPIC}: User:left" in told
        assert held(a) == {
            (one.principal, one.operation.name, one.name) for one in at_source
        }, "nothing changes at the source"
    finally:
        mirror.kill()
