"""Lists of plates are at the other site with their lines, before the record that names them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.lists.lists_topic import CatchUpTimeout, read_lists
from alarm.lists.reader import ListReader
from alarm.lists.unnamed_chunks import CARRIED_UNNAMED_MS, UnnamedChunks
from bus.client.kafka.admin import Admin
from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue
from bus.contracts.plate_lists import (
    ListLine,
    ListRecord,
    base_key,
    change_key,
    is_chunk_key,
    named_keys,
)
from bus.contracts.topics import DATA_VEHICLE, STATE_LISTS, TOPICS
from bus.domain.feature_models import FeatureSettings
from bus.domain.list_chunks import base_chunks, chunk_value
from bus.domain.rule_values import FEATURE, FEATURE_MODEL, normal
from bus.runtime import wall_clock
from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster
from tests.alarm.lists.made_galleries import feature, text_of, unit
from tests.alarm.lists.stored_list import records_of_gallery
from tests.dr_mirror.state.test_state import records
from tests.dr_mirror.switch.test_switch import both_sites
from tests.dr_mirror.two_sites import wait_until

LINES = 25_000
MODEL = FeatureSettings().table()["CITY-FACE-128/1"]
FACES = {f"P{number}": feature(unit(128, number)) for number in range(1_000)}


def bus(cluster: RunningCluster) -> BusSettings:
    return BusSettings(bootstrap_servers=cluster.bootstrap)


def put(cluster: RunningCluster, base: str, version: int, letter: str, *, changed: bool = False) -> None:
    """As an importer and the decider write it."""
    chunks = list(base_chunks(ListLine(n, f"浙{letter}{n:05d}") for n in range(LINES)))
    change = chunk_value(version, [ListLine(0, "沪B12345")])
    record = ListRecord(
        list_id="l", op="put", version=version, base=base, name="l",
        chunks=tuple(one.named for one in chunks), changes=(change.named,) if changed else (),
    )  # fmt: skip
    values = [KeyedValue(base_key("l", base, one.named.number).encode(), one.value) for one in chunks]
    if changed:
        values.append(KeyedValue(change_key("l", base, version).encode(), change.value))
    values.append(KeyedValue(b"l", msgspec.json.encode(record)))
    send_all(bus(cluster), "test", STATE_LISTS, values, headers=[], timeout_s=30, what="records")


def send_gallery(cluster: RunningCluster) -> None:
    records = records_of_gallery("wanted", MODEL, FACES, version=4)
    values = [KeyedValue(key.encode(), value) for key, value in records]
    send_all(bus(cluster), "test", STATE_LISTS, values, headers=[], timeout_s=30, what="records")


def version_at(cluster: RunningCluster) -> int:
    try:
        found = read_lists(bus(cluster), "check", timeout_s=5).lists.values()
    except CatchUpTimeout:
        return 0  # the mirror makes the topic
    return max((one.version for one in found), default=0)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_list_is_at_the_other_site_with_its_lines_over_a_kill_of_the_mirror(tmp_path: Path) -> None:
    """No record stands there before its lines; what the other site's recorder takes away is what was
    replaced; after a switch a list that is put at B comes to A. A gallery of faces is there, too."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        with closing(Admin(bus(a), client_id="test")) as admin:
            admin.ensure_topics([TOPICS[STATE_LISTS], TOPICS[DATA_VEHICLE]])
        put(a, "1" * 32, 5, "A")
        wait_until(lambda: version_at(b) == 5, "the list is at B")
        sites.mirror.kill()
        put(a, "2" * 32, 6, "B", changed=True)
        send_gallery(a)
        sites.mirror.start()
        wait_until(lambda: version_at(b) == 6, "its next version is at B")
        standing: set[str] = set()
        for one in records(b, STATE_LISTS):
            key = (one.key or b"").decode()
            if is_chunk_key(key):
                standing.add(key)
            else:
                named = named_keys(msgspec.json.decode(one.value or b"", type=ListRecord))
                assert named.keys() <= standing, "lines come first"
        with closing(ListReader(bus(b), "check", tmp_path / "tables")) as reader:
            found = reader.catch_up()["l"]
            assert [found.find(plate) is not None for plate in ("浙B24999", "沪B12345", "浙A00000")] == [
                True, True, False,
            ]  # fmt: skip
            gallery = reader.galleries["wanted"]
            seen = {FEATURE: text_of(FACES["P999"]), FEATURE_MODEL: normal(MODEL.name)}
            match = gallery.find(seen)
            assert match is not None
            assert (match.line.entry, match.score, gallery.line_count) == ("P999", 1.0, 1_000)
        unnamed = UnnamedChunks()
        for one in records(b, STATE_LISTS):
            unnamed.apply(one)
        now_ms = wall_clock.now_ms()
        assert unnamed.due(now_ms, is_primary=False) == []
        later = unnamed.due(now_ms + CARRIED_UNNAMED_MS + 60_000, is_primary=False)
        assert later == [base_key("l", "1" * 32, number).encode() for number in range(3)]
        sites.wait_until_copying("A")
        done = sites.switch("B")
        assert done.returncode == 0, done.stdout + done.stderr
        put(b, "3" * 32, 9, "C")
        wait_until(lambda: version_at(a) == 9, "what B has put is at A")
        stored = read_lists(bus(a), "check", wanted=None)
        assert len(list(stored.lines(stored.in_force["l"]))) == LINES
