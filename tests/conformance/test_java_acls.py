"""Kafka's own kafka-acls against our broker, and what `databus acl` shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.keys_controller import STANDARD_AUTHORIZER
from bus.client.admin import queries
from bus.client.wire.sync_client import SyncClient
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.kafka import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOOL_TIMEOUT_S = 120.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """One that obeys ACLs; the tool is a super user."""
    running = start_broker(
        tmp_path / "broker",
        {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"},
    )
    yield running
    running.stop()


def test_kafka_acls_adds_lists_and_removes(broker: RunningBroker, tmp_path: Path) -> None:
    """`--producer` makes what a producer needs."""

    def tool(*words: str) -> str:
        done = run_tool(
            "kafka-acls", ["--bootstrap-server", broker.bootstrap, *words], folder=tmp_path,
            timeout_s=TOOL_TIMEOUT_S,
        )  # fmt: skip
        text = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0, text
        return text

    tool("--add", "--allow-principal", "User:camera", "--producer", "--topic", "data.",
         "--resource-pattern-type", "prefixed")  # fmt: skip
    tool("--add", "--deny-principal", "User:*", "--deny-host", "10.9.0.1", "--operation", "All",
         "--cluster")  # fmt: skip
    with SyncClient.of(BusSettings(bootstrap_servers=broker.bootstrap), "acls") as client:
        found = set(queries.acls(client))
    assert found == {
        *(
            AclBinding(Resource.TOPIC, "data.", Pattern.PREFIXED, "User:camera", "*", operation,
                       Permission.ALLOW)
            for operation in (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        ),
        AclBinding(Resource.CLUSTER, "kafka-cluster", Pattern.LITERAL, "User:*", "10.9.0.1",
                   Operation.ALL, Permission.DENY),
    }  # fmt: skip
    listed = tool("--list")
    assert "principal=User:camera, host=*, operation=WRITE, permissionType=ALLOW" in listed
    tool("--remove", "--force", "--topic", "data.", "--resource-pattern-type", "prefixed")
    assert "data." not in tool("--list")
