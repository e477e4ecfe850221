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


def make_topics(bus: BusSettings, mirror: MirrorSettings | None = None) -> None:
    """All topics of the contract; those that are there get what a later contract has added. Waits
    for the bus to come up. At the second site the mirror makes those that it copies: one that is
    there already is none."""
    admin = Admin(bus, client_id="databus")
    try:
        admin.wait_until_up(TOPICS_TIMEOUT_S)
        topics = list(TOPICS.values())
        if mirror is not None and _is_second_site(admin, mirror):
            topics = [topic for topic in topics if not mirror.selection.selects(topic.name)]
        made = admin.ensure_topics(topics)
        admin.add_configs(topic for topic in topics if topic.name not in made)
    except BusError as error:
        raise OperatorError(f"the topics could not be made: {error}") from error
    finally:
        admin.close()


def _is_second_site(admin: Admin, mirror: MirrorSettings) -> bool:
    """Whether the mirror copies to this cluster, as long as no site epoch says otherwise. Raises
    BusError."""
    if not mirror.target_bootstrap_servers or mirror.target_api != "mirror_append":
        return False
    if mirror.topic_prefixes:
        return False  # copies have other names
    own_id = admin.describe_cluster()[0].cluster_id
    target = ClusterAdmin(mirror.target_bus, "databus")
    try:
        if target.cluster_id() != own_id:
            return False
        epoch = target.site_epoch()
        return epoch is None or epoch.secondary == own_id
    except BusError:
        return False  # addresses that do not answer are not ours: this cluster is up
    finally:
        target.close()
