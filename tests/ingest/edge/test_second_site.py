"""What an edge hears of the mirror, beside a real broker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.mirror import MirrorConfirmed
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from ingest.edge.sites.second_site import SecondSite
from ingest.edge.sites.site_route import HOME, SECOND, SiteRoute
from ingest.spool import Place, Spool
from tests.dr_mirror.two_sites import wait_until

MANY = 1 << 30


def confirm(bus: BusSettings, *ends: tuple[int, int]) -> None:
    """As the mirror from A to B: partitions and offsets."""
    producer = Producer(bus, client_id="test")
    for partition, offset in ends:
        said = MirrorConfirmed(
            source_cluster_id="A", target_cluster_id="B", topic=DATA_VEHICLE, partition=partition,
            offset=offset, generation=1, at_ms=1,
        )  # fmt: skip
        producer.send(CONTROL_MIRROR_CONFIRMED, msgspec.json.encode(said), key=said.key)
    assert producer.close() == 0


@pytest.mark.slow
def test_what_a_topic_of_confirmations_says_first_after_it_was_made_anew_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also what lies below the end of the former one. The id says that it is another topic; the
    error of a fetch that meets the moment without one had to say it before."""
    heard: dict[Place, int] = {}
    right = Spool.confirm

    def listen(spool: Spool, confirmed: Mapping[Place, int]) -> None:
        heard.update(confirmed)
        right(spool, confirmed)

    monkeypatch.setattr(Spool, "confirm", listen)
    broker = start_broker(tmp_path / "broker", {})
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    route = SiteRoute(tmp_path / "route", bus, bus)
    route.on_cluster_id(HOME, "A")
    route.on_cluster_id(SECOND, "B")
    spool = Spool(tmp_path / "spool", max_bytes=MANY, segment_bytes=1500, retained_max_bytes=MANY)
    edge = SecondSite(spool, route, move_after_s=0)
    with closing(Admin(bus, client_id="test")) as admin:
        admin.ensure_topics([TOPICS[CONTROL_MIRROR_CONFIRMED]])
        confirm(bus, (0, 1), (0, 2), (0, 3))
        edge.start()
        try:
            wait_until(lambda: heard == {(DATA_VEHICLE, 0): 3}, "the former topic is read")
            admin.delete_topic(CONTROL_MIRROR_CONFIRMED)
            admin.ensure_topics([TOPICS[CONTROL_MIRROR_CONFIRMED]])
            confirm(bus, (1, 9), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8))
            wanted = {(DATA_VEHICLE, 0): 8, (DATA_VEHICLE, 1): 9}
            wait_until(lambda: heard == wanted, "the new one is read from its start")
        finally:
            edge.stop()
            broker.stop()
