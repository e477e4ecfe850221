"""The topics of the contract, made on a bus that may still come up.

In: where the bus is. Out: all topics are there, or an `OperatorError`. Never: a change of what
somebody has set on a topic.
"""

from __future__ import annotations

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.errors import OperatorError
from dr_mirror.settings import MirrorSettings

TOPICS_TIMEOUT_S = 60.0


def make_topics(
    bus: BusSettings, mirror: MirrorSettings | None = None, own_site: str | None = None
) -> None:
    """All topics of the contract; those that are there get what a later contract has added. Waits
    for the bus to come up. At the second site the mirror makes those that it copies: one that is
    there already is none. `own_site`: which one this is, as `[mirror]` calls it, where that is
    known; else the target's brokers are asked."""
    admin = Admin(bus, client_id="databus")
    try:
        admin.wait_until_up(TOPICS_TIMEOUT_S)
        topics = list(TOPICS.values())
        if mirror is not None and _is_second_site(admin, bus, mirror, own_site):
            topics = [topic for topic in topics if not mirror.selection.selects(topic.name)]
        made = admin.ensure_topics(topics)
        admin.add_configs(topic for topic in topics if topic.name not in made)
    except BusError as error:
        raise OperatorError(f"the topics could not be made: {error}") from error
    finally:
        admin.close()


def _is_second_site(
    admin: Admin, bus: BusSettings, mirror: MirrorSettings, own_site: str | None
) -> bool:
    """Whether the mirror copies to this cluster, as long as no site epoch says otherwise. Raises
    BusError."""
    if not mirror.target_bootstrap_servers or mirror.target_api != "mirror_append":
        return False
    if mirror.topic_prefixes:
        return False  # copies have other names
    own_id = admin.describe_cluster()[0].cluster_id
    if own_site is not None:  # a broker of a closed site has no login at the mirror's listener
        return own_site == mirror.target_cluster_alias and _is_secondary(bus, own_id)
    try:
        return _is_secondary(mirror.target_bus, own_id)
    except BusError:
        return False  # addresses that do not answer are not ours: this cluster is up


def _is_secondary(target_bus: BusSettings, own_id: str) -> bool:
    """Whether those are the brokers of this very cluster, and no site epoch calls it the primary.
    Raises BusError."""
    target = ClusterAdmin(target_bus, "databus")
    try:
        if target.cluster_id() != own_id:
            return False
        epoch = target.site_epoch()
        return epoch is None or epoch.secondary == own_id
    finally:
        target.close()
