"""A topic made anew at the target while its pictures are copied; a real broker, edges that are away."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from dr_mirror.pictures.picture_file import PictureFile
from dr_mirror.pictures.picture_replicator import PictureReplicator
from dr_mirror.policy.picture_policy import PicturePolicy
from dr_mirror.settings import MirrorSettings
from tests.dr_mirror.two_sites import wait_until

NOBODY = "http://127.0.0.1:9"


def send(bus: BusSettings, first: int, count: int) -> None:
    """Records with a picture each, on one partition."""
    producer = Producer(bus, client_id="test")
    for number in range(first, first + count):
        record = {"车辆图片地址": f"http://a/pictures/p{number}.jpg"}
        producer.send(DATA_VEHICLE, json.dumps(record).encode(), partition=0)
    assert producer.close() == 0


@pytest.mark.slow
def test_pictures_of_a_topic_made_anew_are_copied_from_its_start(tmp_path: Path) -> None:
    """Regression: those of as many records as had been read of the former topic never came; `mirror
    copy-anew` makes a topic anew at the target. While it runs, and while it does not."""
    broker = start_broker(tmp_path / "broker", {})
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    settings = MirrorSettings(
        source_bootstrap_servers=NOBODY, target_bootstrap_servers=broker.bootstrap,
        pictures=PicturePolicy.ALL, source_pictures_url=NOBODY, target_pictures_url=NOBODY,
    )  # fmt: skip
    path, known = tmp_path / "pictures.db", 0
    with closing(Admin(bus, client_id="test")) as admin:
        admin.ensure_topics([TOPICS[DATA_VEHICLE]])

        def make_anew() -> None:
            admin.delete_topic(DATA_VEHICLE)
            admin.ensure_topics([TOPICS[DATA_VEHICLE]])

        for count, lives in ((3, 2), (9, 1)):
            running = PictureReplicator(settings, "B", path, lambda _: None).start()
            for life in range(lives):
                if life:
                    make_anew()
                send(bus, known, count + life)
                known += count + life
                wait_until(lambda: running.status.waiting == known, f"{known} pictures wait")  # noqa: B023
            running.stop()
            running._thread.join(60)
            make_anew()
    file = PictureFile(path)
    assert file.waiting()[0] == known
    file.close()
    broker.stop()
