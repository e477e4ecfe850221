"""What the other site holds of what was sent to this one: asked over HTTP, or of its brokers.

In: the route. Out: `MirroredEnds`. Raises BusError. Never: the site that may be dead is asked.
"""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request

import msgspec

from bus.client.kafka.mirrored_ends import MirroredEnds, mirrored_ends
from bus.contracts import topics
from bus.errors import BusError, ErrorCode
from ingest.edge.sites.site_route import SECOND, Site, SiteRoute

PATH = "/v1/mirrored-ends"
TIMEOUT_S = 30.0
MAX_REPLY_BYTES = 64 << 20
SENT_TO = frozenset(
    (*topics.DATA_TOPICS, topics.METER_SENT, topics.METER_ARRIVED, topics.QUARANTINE_RECORDS)
)
"""The topics that an edge writes to."""


def ask_ends(route: SiteRoute, site: Site, second_site_url: str) -> MirroredEnds:
    """What `site` holds of the one that is sent to. Blocking."""
    source = route.cluster_id(route.active)
    if site == SECOND and second_site_url:
        return _over_http(second_site_url, source)
    return mirrored_ends(route.bus(site), source)


def _over_http(url: str, source_cluster_id: str) -> MirroredEnds:
    query = urllib.parse.urlencode({"source": source_cluster_id})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url.rstrip('/')}{PATH}?{query}", timeout=TIMEOUT_S) as reply:
            return msgspec.json.decode(reply.read(MAX_REPLY_BYTES), type=MirroredEnds)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise BusError(
            ErrorCode.NETWORK_EXCEPTION, f"the second site's edge at {url} does not answer: {error}"
        ) from error
