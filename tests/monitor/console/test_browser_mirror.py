"""The page of the mirror in Chromium, before the page that the role `mirror` shows."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from console_browser import ConsoleProcess, OpenPage, now_ms, shoot
from console_city import fill_store

from bus.contracts.mirror_status import (
    MirrorStatus,
    PartitionStatus,
    PictureStatus,
    ProofStatus,
    ReplicaDifference,
    TopicProof,
    TopicStatus,
)
from bus.metrics.server import MetricsServer
from dr_mirror.service.role import StatusPage
from dr_mirror.status.metrics import MirrorMetrics

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("console-browser")]

NOBODY_LISTENS = "127.0.0.1:1"
TOPICS = ("data.vehicle", "data.face", "data.video", "meter.sent")
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def a_partition(topic: str, number: int, lag: int, state: str = "copying") -> PartitionStatus:
    return PartitionStatus(
        topic=topic, partition=number, state=state, detail="", source_end=90_000 + lag,
        target_end=90_000, lag_records=lag, lag_bytes=lag * 400, lag_s=lag / 100, missing=0,
        copied_records=90_000, copied_bytes=36_000_000,
    )  # fmt: skip


def a_status(at_ms: int, *, is_well: bool) -> MirrorStatus:
    """Four topics of two partitions; unwell: a flipped bit, a topic that is none, a group."""
    proofs = [
        TopicProof(
            topic=topic, complete_to_ms=at_ms - 20_000 if is_well else -1, blocks=180,
            unproven_blocks=0, oldest_s=71_000, differences=0 if is_well or topic != "data.face" else 1,
        )
        for topic in TOPICS
    ]  # fmt: skip
    found = ReplicaDifference(
        topic="data.face", partition=1, broker=2, directory="/disk2/databus/logs", first_offset=41_200,
        end_offset=41_260, found_ms=at_ms - 40_000, detail="the batch differs",
    )  # fmt: skip
    pictures = PictureStatus(
        policy="hits", waiting=3, oldest_ms=at_ms - 9_000, unread_records=0, copied=4_812,
        copied_bytes=961_000_000, compared=4_812, oldest_compared_ms=at_ms - 70_000,
        differing=() if is_well else ("20261010/110110_1_0_0/own-7-vehicle.jpg",),
    )  # fmt: skip
    states = [TopicStatus(topic=topic, state="copying", detail="") for topic in TOPICS]
    if not is_well:
        states.append(TopicStatus(topic="data.old", state="not_a_mirror", detail=""))
    return MirrorStatus(
        at_ms=at_ms, source_cluster_id="A-cluster", target_cluster_id="B-cluster", generation=17,
        unreachable="", buffered_bytes=0, rpo_s=0.4, topics=tuple(states),
        partitions=tuple(a_partition(topic, n, 40 if n else 0) for topic in TOPICS for n in (0, 1)),
        groups_not_copied={} if is_well else {"readers": "it has members at the target"},
        proof=ProofStatus(
            topics=tuple(proofs), differences=() if is_well else (found,), bytes_per_s=2e6,
            not_compared={"meter.arrived": "compacted"},
        ),
        pictures=pictures,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown() -> StatusPage:
    return StatusPage(MirrorMetrics())


@pytest.fixture(scope="module")
def page_of_mirror(shown: StatusPage) -> Iterator[MetricsServer]:
    begun_ms = now_ms()
    for second in range(0, 3_600, 10):
        status = a_status(begun_ms - 3_600_000 + second * 1_000, is_well=True)
        shown.show(msgspec.structs.replace(status, rpo_s=0.3 + (second % 700) / 900))
    server = MetricsServer("127.0.0.1", 0, MirrorMetrics().registry, {b"/status": shown.json})
    yield server
    server.close()


@pytest.fixture(scope="module")
def console(
    page_of_mirror: MetricsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    path = tmp_path_factory.mktemp("console")
    fill_store(path, now_ms=now_ms(), records=5)
    url = f"http://127.0.0.1:{page_of_mirror.port}"
    made = ConsoleProcess(path, NOBODY_LISTENS, now_ms(), url)
    yield made
    made.stop()


def test_the_page_of_the_mirror_says_how_far_it_is_and_what_to_do(
    open_page: OpenPage, console: ConsoleProcess, shown: StatusPage, page_of_mirror: MetricsServer
) -> None:
    """Well, then with a difference, in both languages; then the mirror is gone."""
    shown.show(a_status(now_ms() + 60_000, is_well=True))
    page = open_page()
    page.goto(console.url + "/mirror")
    page.wait_for_selector(".tile.good >> text=正在复制")
    assert (
        page.locator("text=处理办法").count()
        == page.locator("text=处理办法 >> visible=false").count()
    )
    page.wait_for_selector("text=A-cluster")
    page.wait_for_selector("text=待复制 3")
    page.wait_for_selector("text=仅告警图片")
    page.wait_for_selector(".ag-row >> text=data.vehicle")
    page.wait_for_timeout(500)
    shoot(page, console, "mirror-well")

    shown.show(a_status(now_ms() + 60_000, is_well=False))
    page.wait_for_selector('.ag-row >> text="/disk2/databus/logs"')
    page.wait_for_selector("text=停止该 broker")
    page.wait_for_selector("text=data.old: 目标端已有同名主题")
    page.wait_for_selector(".ag-row:has-text('data.face') .bad >> text=内容不一致")
    page.wait_for_selector(".ag-row:has-text('data.face') .ag-cell[col-id=complete_to] >> text=未知")
    page.wait_for_timeout(500)
    shoot(page, console, "mirror-differs")
    page.request.post(f"{console.url}/auth/preferences", form={"language": "en"}, max_redirects=0)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(console.url + "/mirror")
    page.wait_for_selector("text=its disk is at fault")
    page.wait_for_selector("text=41,200–41,259")
    page.wait_for_selector("text=own-7-vehicle.jpg")
    assert page.evaluate(WIDER) <= 0
    page.wait_for_timeout(500)
    shoot(page, console, "mirror-narrow")

    page_of_mirror.close()
    page.wait_for_selector("text=The mirror does not answer")
    shoot(page, console, "mirror-gone")
