"""What the other site holds of what was sent to this one: asked over HTTP, or of its brokers.

In: the route. Out: `MirroredEnds`. Raises BusError. Never: the site that may be dead is asked.
"""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass

import msgspec

from bus.client.kafka.mirrored_ends import MirroredEnds, mirrored_ends
from bus.contracts import topics
from bus.errors import BusError, ErrorCode
from bus.metrics.read_page import read_page
from ingest.edge.sites.site_route import SECOND, Site, SiteRoute

PATH = "/v1/mirrored-ends"
TIMEOUT_S = 30.0
MAX_REPLY_BYTES = 64 << 20
SENT_TO = frozenset(
    (*topics.DATA_TOPICS, topics.METER_SENT, topics.METER_ARRIVED, topics.QUARANTINE_RECORDS)
)
"""The topics that an edge writes to."""


@dataclass(frozen=True, slots=True)
class SecondEdge:
    """An edge at the second site, and the token that its pages ask for; without a URL there is
    none."""

    url: str = ""
    token: str = ""


NO_EDGE = SecondEdge()


def ask_ends(route: SiteRoute, site: Site, edge: SecondEdge) -> MirroredEnds:
    """What `site` holds of the one that is sent to. Blocking."""
    source = route.cluster_id(route.active)
    if site == SECOND and edge.url:
        return _over_http(edge, source)
    return mirrored_ends(route.bus(site), source)


def _over_http(edge: SecondEdge, source_cluster_id: str) -> MirroredEnds:
    query = urllib.parse.urlencode({"source": source_cluster_id})
    url = f"{edge.url.rstrip('/')}{PATH}?{query}"
    try:
        page = read_page(url, TIMEOUT_S, edge.token, MAX_REPLY_BYTES)
        return msgspec.json.decode(page, type=MirroredEnds)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise BusError(
            ErrorCode.NETWORK_EXCEPTION,
            f"the second site's edge at {edge.url} does not answer: {error}",
        ) from error
