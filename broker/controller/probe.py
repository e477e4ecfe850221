"""Probes a broker: one connection, one ApiVersions request, with a short timeout."""

from __future__ import annotations

from broker.clock.port import Clock
from broker.metadata.image import Endpoint
from bus.client.wire.channel import ChannelLimits, PeerChannel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.ports import Address, Connector
from bus.protocol.apis import ApiKey
from bus.protocol.generated.api_versions import ApiVersionsRequest

PROBE_TIMEOUT_MS = 300
"""A live broker in the same cluster responds within milliseconds; with this limit a killed broker
is detected well within a second."""

CLIENT = "controller-probe"


async def is_reachable(network: Connector, clock: Clock, endpoint: Endpoint) -> bool:
    """Whether a broker serves at this endpoint now."""
    channel = PeerChannel(
        network,
        clock,
        lambda: Address(endpoint.host, endpoint.port),
        client_id=CLIENT,
        name=f"probe of {endpoint.host}:{endpoint.port}",
        limits=ChannelLimits(setup_timeout_ms=PROBE_TIMEOUT_MS),
    )
    request = ApiVersionsRequest(client_software_name=CLIENT, client_software_version="1")
    try:
        await channel.request(ApiKey.API_VERSIONS, request, timeout_ms=PROBE_TIMEOUT_MS)
    except PeerError as error:
        return error.kind is PeerErrorKind.UNSUPPORTED_VERSION
    finally:
        channel.close()
    return True
