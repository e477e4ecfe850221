"""What ingest does with one site's topic, without Spark: rows and positions in a store of the site.

In: a cluster, a topic. Out: ids of rows. Its positions go back as a driver's do at its start.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicPartition
from bus.contracts.headers import RECORD_ID
from bus.domain.record_identity import identity_on_bus
from bus.settings import BusSettings
from deploy.demo.two_sites.collect import stored_ids
from deploy.servers.databus_cluster import RunningCluster
from ingest.store.open import open_store
from ingest.store.port import Position, RecordStore, StoreBatch
from ingest.store.positions import epoch_marks, valid_positions
from spark_apps.source.truncations import go_back, read_truncations
from tests.ingest.store.made import row

APPLICATION = "ingest"
AT_ONCE = 500


class StoringSite:
    """One run of the application each time. A record's identity is the one that ingest gives it."""

    def __init__(self, cluster: RunningCluster, folder: Path, topic: str) -> None:
        self._bus = BusSettings(bootstrap_servers=cluster.bootstrap)
        self._url = f"sqlite://{folder}/records.db"
        self._topic = topic

    def run(self) -> set[str]:
        """From the stored positions to the ends; the ids of all rows."""
        with closing(open_store(self._url, "write")) as store:
            cluster, ends = self._cluster()
            with closing(Admin(self._bus, client_id="test")) as admin:
                cuts = read_truncations(admin, [self._topic])
            marks = store.positions(epoch_marks(APPLICATION))
            kept = go_back(store, store.positions(APPLICATION), marks, cuts)
            begins = valid_positions(kept, cluster)
            with Consumer(self._bus, client_id="test") as consumer:
                places = {place: begins.get(tuple(place), 0) for place in ends}
                consumer.assign(places)
                while any(places[place] < ends[place] for place in ends):
                    self._apply(store, cluster, consumer.poll(AT_ONCE, 0.2), places)
            return stored_ids(store)

    def _apply(
        self, store: RecordStore, cluster: ClusterIdentity, records: list[ConsumedRecord],
        places: dict[TopicPartition, int],
    ) -> None:  # fmt: skip
        before = dict(places)
        for one in records:
            places[TopicPartition(one.topic, one.partition)] = one.offset + 1
        positions = [
            Position(
                application=APPLICATION, cluster_id=cluster.cluster_id, topic=self._topic,
                topic_id=cluster.topic_ids[self._topic], partition=place.partition,
                start_offset=before[place], end_offset=end,
            )
            for place, end in places.items() if end > before[place]
        ]  # fmt: skip
        if positions:
            store.apply(StoreBatch(rows=[row(0, record_id=identity(one)) for one in records]), positions)

    def _cluster(self) -> tuple[ClusterIdentity, dict[TopicPartition, int]]:
        with closing(Admin(self._bus, client_id="test")) as admin:
            cluster = admin.identity([self._topic])
            places = [TopicPartition(*place) for place in cluster.partitions]
            return cluster, admin.end_offsets(places)


def identity(one: ConsumedRecord) -> str:
    record_id = (one.header(RECORD_ID) or b"").decode("utf-8", "replace")
    return identity_on_bus(record_id, one.topic, one.partition, one.offset, one.value)
