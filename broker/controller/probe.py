"""Asking a broker whether it is there: one connection, one ApiVersions.

In: its endpoint. Out: whether it answered in time. Never: what follows from that.
"""

from __future__ import annotations

from broker.clock.port import Clock
from broker.metadata.image import Endpoint
from broker.peer.channel import ChannelLimits, PeerChannel
from broker.peer.errors import PeerError, PeerErrorKind
from broker.peer.port import Address, Network
from bus.protocol.apis import ApiKey
from bus.protocol.generated.api_versions import ApiVersionsRequest

PROBE_TIMEOUT_MS = 300
"""A broker in the same cluster that serves answers within milliseconds; with this bound a broker
that was killed is known to be gone well within a second."""

CLIENT = "controller-probe"


async def answers(network: Network, clock: Clock, endpoint: Endpoint) -> bool:
    """Whether somebody serves at this endpoint now."""
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
