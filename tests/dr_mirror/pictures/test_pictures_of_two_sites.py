"""Pictures come to the other site beside their records, from edge to edge, and are compared there.

Real processes: a broker at the second site, an edge at each, the mirror. What is altered is altered
on the disk.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.mirror_status import PictureStatus
from bus.contracts.picture_digest import REPR_DIGEST, digest_header, digest_of
from bus.contracts.pictures import name_in_address
from bus.contracts.topics import EVENT_ALARM, TOPICS
from bus.settings import BusSettings
from tests.dr_mirror.edges.test_edge_of_two_sites import EdgeOfTwoSites
from tests.dr_mirror.switch.test_switch import Sites, both_sites
from tests.dr_mirror.two_sites import wait_until

TOKEN = "secret of the mirror"
MIRROR = {"authorization": f"Bearer {TOKEN}"}
JPEG = b"\xff\xd8\xff"


@dataclass
class PictureSites:
    """Both sites with an edge each; the cameras of A send to A's."""

    sites: Sites
    edges: dict[str, EdgeOfTwoSites]
    folders: dict[str, Path]
    dice: random.Random

    def send(self, number: int) -> str:
        """A record of A with a picture; the picture's name."""
        edge = self.edges["A"]
        data = JPEG + self.dice.randbytes(3_000)
        put = httpx.put(f"{edge.url}/v1/pictures/p{number}.jpg", content=data)
        record = {
            "卡口编号": "c1", "抓拍时间": "2026-10-10 08:00:00.000", "抓拍设备地址": "10.0.0.1",
            "记录编号": str(number), "车牌号码": f"浙A{number:05}", "车辆图片地址": put.json()["url"],
        }  # fmt: skip
        sent = httpx.post(f"{edge.url}/v1/records/vehicle", content=json.dumps(record))
        assert sent.json()["accepted"] == 1, sent.text
        return name_in_address(put.json()["url"])

    def file(self, site: str, name: str) -> Path:
        return self.folders[site] / "pictures" / name

    def is_at(self, site: str, name: str) -> bool:
        return self.file(site, name).exists()

    @property
    def status(self) -> PictureStatus:
        return self.sites.mirror.status().pictures


@contextmanager
def picture_sites(
    folder: Path, dice: random.Random, policy: str, **settings: str
) -> Iterator[PictureSites]:
    """Edges first: the mirror's settings name them."""
    mirror = {
        "mirror.pictures": policy, "mirror.pictures_token": TOKEN, "mirror.proof_interval_s": "0.3",
        **settings,
    }  # fmt: skip
    with both_sites(folder) as sites:
        sites.mirror.kill()
        folders = {name: folder / f"edge-{name}" for name in "AB"}
        # Or B's edge would make the topics that are the mirror's to make.
        brokers = {
            f"mirror.{side}_bootstrap_servers": sites.clusters[name].mirror_bootstrap
            for side, name in (("source", "A"), ("target", "B"))
        }
        edges = {
            name: EdgeOfTwoSites(
                folders[name], sites.clusters[name].bootstrap, brokers,
                mirror_tokens=json.dumps({"mirror": TOKEN}),
            )
            for name in "AB"
        }  # fmt: skip
        for name in "AB":
            admin = Admin(
                BusSettings(bootstrap_servers=sites.clusters[name].bootstrap), client_id="test"
            )
            kept = [TOPICS[EVENT_ALARM]] if name == "B" else TOPICS.values()
            admin.ensure_topics(kept)  # B's others are the mirror's to make
            admin.close()
        sites.mirror.settings |= mirror | {
            "mirror.source_pictures_url": edges["A"].url, "mirror.target_pictures_url": edges["B"].url,
        }  # fmt: skip
        sites.mirror.start()
        try:
            yield PictureSites(sites, edges, folders, dice)
        finally:
            for edge in edges.values():
                edge.kill()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_picture_of_a_record_comes_over_kills_of_mirror_and_edge_and_is_compared_on_the_disk(
    tmp_path: Path, dice: random.Random
):
    """An altered one is named and stays as it is; one that the target has otherwise is not
    overwritten."""
    with picture_sites(tmp_path, dice, "all") as both:
        names = [both.send(number) for number in range(20)]
        wait_until(lambda: both.is_at("B", names[0]), "the first picture")
        both.sites.mirror.kill()
        names += [both.send(number) for number in range(20, 40)]
        both.sites.mirror.start()
        wait_until(lambda: both.is_at("B", names[25]), "a picture after the restart")
        both.edges["B"].kill()
        other = both.send(40)
        both.file("B", other).parent.mkdir(parents=True, exist_ok=True)
        both.file("B", other).write_bytes(JPEG + b"another")
        names += [both.send(number) for number in range(41, 60)]
        wait_until(lambda: both.status.problem, "the mirror says that an edge is away")
        both.edges["B"].start()
        wait_until(lambda: all(both.is_at("B", name) for name in names), "all pictures")
        for name in names:
            assert both.file("A", name).read_bytes() == both.file("B", name).read_bytes()
        wait_until(lambda: both.status.other == (other,), "the other picture is named")
        assert both.file("B", other).read_bytes() == JPEG + b"another"
        wait_until(lambda: both.status.compared == len(names), "all are compared")
        assert not both.status.differing
        altered = both.file("B", dice.choice(names))
        altered.write_bytes(altered.read_bytes()[:-1] + b"?")
        wait_until(lambda: both.status.differing, "the altered one is named")
        assert both.status.differing == (str(altered.relative_to(both.folders["B"] / "pictures")),)
        said = both.sites.mirror.command("status")
        assert said.returncode == 1
        assert altered.name in said.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_of_hits_only_the_pictures_of_alarms_come_and_after_a_switch_they_go_both_ways(
    tmp_path: Path, dice: random.Random
):
    """Cameras stay with their edge, which is the former primary's then."""
    with picture_sites(tmp_path, dice, "hits") as both:
        names = [both.send(number) for number in range(4)]
        raise_alarm(both.sites.clusters["A"].bootstrap, names[2])
        wait_until(lambda: both.is_at("B", names[2]), "the picture of the alarm")
        both.sites.wait_until_copying("A")
        assert [both.is_at("B", name) for name in names] == [False, False, True, False]
        assert both.sites.switch("B").returncode == 0
        both.sites.wait_until_copying("B")
        data = JPEG + b"of B"
        new = "20261010/c/new-vehicle.jpg"
        put = httpx.put(
            f"{both.edges['B'].url}/pictures/{new}", content=data,
            headers={**MIRROR, REPR_DIGEST: digest_header(digest_of(data))},
        )  # fmt: skip
        assert put.status_code == 201, put.text
        raise_alarm(both.sites.clusters["B"].bootstrap, new)
        wait_until(lambda: both.is_at("A", new), "B's picture is at A")
        assert both.file("A", new).read_bytes() == data
        raise_alarm(both.sites.clusters["B"].bootstrap, names[3])
        wait_until(lambda: both.is_at("B", names[3]), "the picture of A's edge is at B")
        assert not both.is_at("B", names[0])


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_while_a_site_is_lost_the_pictures_that_its_edge_still_has_come_to_the_new_primary(
    tmp_path: Path, dice: random.Random
):
    """Its brokers are dead; an alarm that B raises afterwards is of a record that was copied."""
    with picture_sites(tmp_path, dice, "hits") as both:
        names = [both.send(number) for number in range(3)]
        raise_alarm(both.sites.clusters["A"].bootstrap, names[0])
        wait_until(lambda: both.is_at("B", names[0]), "the picture of A's alarm")
        both.sites.clusters["A"].kill(1)
        done = both.sites.switch("B", "--force")
        assert done.returncode == 0, done.stdout + done.stderr
        raise_alarm(both.sites.clusters["B"].bootstrap, names[2])
        wait_until(lambda: both.is_at("B", names[2]), "the picture of B's alarm")
        assert not both.is_at("B", names[1])


def raise_alarm(bootstrap: str, name: str) -> None:
    producer = Producer(BusSettings(bootstrap_servers=bootstrap), client_id="test")
    url = f"http://192.0.2.1:8650/pictures/{name}"
    alarm = {"alarm_id": f"r:{name}", "picture_url": url, "record": "{}"}
    producer.send(EVENT_ALARM, json.dumps(alarm).encode(), key="r")
    assert producer.close() == 0


