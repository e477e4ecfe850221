"""`databus mirror gaps`: what a forced switch has lost, by the numbers that devices give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from deploy.servers.databus_cluster import RunningCluster
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.switch.test_switch import PARTITIONS, TOPIC, both_sites, send_one
from tests.dr_mirror.two_sites import wait_until

CAMERAS = ("10.0.0.1", "10.0.0.2")


def send_numbered(cluster: RunningCluster, first: int, end: int) -> None:
    """Of both cameras; the second one does not number its records."""
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(first, end):
        for camera in CAMERAS:
            body = {"抓拍设备地址": camera, "抓拍时间": f"2026-11-27 23:00:{number:06d}"}
            if camera == CAMERAS[0]:
                body["设备流水号"] = str(number)
            value = json.dumps(body, ensure_ascii=False).encode()
            sender.produce(TOPIC, value, partition=number % PARTITIONS)
    assert sender.flush(30) == 0


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_camera_that_numbers_its_records_is_named_with_those_that_the_new_primary_lacks(
    tmp_path: Path,
):
    """A is lost with records that were not copied; the camera goes on counting at B."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        none = sites.mirror.command("gaps")
        assert none.returncode == 1
        assert "no switch was made" in none.stderr
        send_numbered(a, 0, 50)
        sites.wait_until_copying("A")
        sites.mirror.kill()
        send_numbered(a, 50, 70)
        a.kill(1)
        sites.mirror.start()
        forced = sites.switch("B", "--force")
        assert forced.returncode == 0, forced.stdout + forced.stderr
        wait_until(lambda: _is_open(b), "B takes records")
        send_numbered(b, 70, 90)
        told = sites.mirror.command("gaps", "--json")
        assert told.returncode == 0, told.stdout + told.stderr
        found = json.loads(told.stdout)
        assert found["is_whole"]
        assert found["gaps"] == [{
            "camera_ip": CAMERAS[0], "kind": "vehicle", "present": 70, "missing": 20,
            "ranges": [[50, 69]],
        }]  # fmt: skip
        shown = sites.mirror.command("gaps").stdout
        assert "50-69" in shown
        assert CAMERAS[1] not in shown


def _is_open(cluster: RunningCluster) -> bool:
    send_one(cluster)
    return True
