"""Broker configurations altered through any broker of a cluster: each resolves the right target."""

from __future__ import annotations

from typing import Any

import pytest

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response
from bus.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.simulation.cluster import SimCluster
from tests.simulation.world import SimWorld

TOPIC, BROKER = 2, 4


def wanted(*resources: tuple[int, str, str, str]) -> IncrementalAlterConfigsRequest:
    """The request for these changes: (type, name, key, value) each."""
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(kind, name, [AlterableConfig(key, 0, value)])
            for kind, name, key, value in resources
        ]
    )


async def asked(broker: Any, request: IncrementalAlterConfigsRequest) -> list[tuple[int, str]]:
    """The response to a client of this broker: (error, message) of each resource."""
    chunks = await broker.components.dispatchers[broker.roles.client_listener_type].call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, request
    )
    if isinstance(chunks, tuple):  # another broker's frame, unchanged
        _, chunks = decode_response(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, chunks[1])
    return [(one.error_code, one.error_message) for one in chunks.responses]


@pytest.mark.parametrize("controller", ["kraft", "zookeeper"])
def test_every_broker_takes_its_own_configuration_and_no_others(controller: str) -> None:
    """Regression: another broker's was accepted, by the active controller and by forwarding
    brokers."""
    world = SimWorld("altering brokers")
    cluster = SimCluster(world, 3, controller)

    async def story() -> None:
        cluster.start()
        assert await world.until(lambda: len(cluster.serving()) == 3, 60)
        for machine, broker in cluster.serving():
            own, other = str(machine.node_id), str(machine.node_id % 3 + 1)
            change = "log.retention.ms", f"{machine.node_id}000"
            assert await asked(broker, wanted((BROKER, own, *change))) == [(0, None)]
            [(error, message)] = await asked(broker, wanted((BROKER, other, *change)))
            assert error == ErrorCode.INVALID_REQUEST
            assert message == f"Unexpected broker id, expected {own}, but received {other}"
            [(error, _)] = await asked(broker, wanted((BROKER, own, "num.io.threads", "100")))
            assert error == ErrorCode.INVALID_REQUEST
        assert await world.until(
            lambda: in_force() == [machine.node_id * 1000 for machine in cluster.machines], 60
        )

    def in_force() -> list[int]:
        return [broker.components.metadata.config["log.retention.ms"] for _, broker in cluster.serving()]

    world.run(story())
    world.end()
    assert world.complaints == []
