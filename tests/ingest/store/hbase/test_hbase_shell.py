"""What an operator does in HBase's own shell: make the tables in several regions, read a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from bus.contracts.meters import LatencyCell
from bus.domain.retention import RetentionSettings
from deploy.errors import Unavailable
from deploy.servers.hbase import Hbase
from deploy.servers.hbase_shell import run_shell
from deploy.setup.server_jars import hbase_shell_jars
from ingest.store.hbase import keys
from ingest.store.hbase.tables import CELLS, CLASSES, LEDGER, REGIONS, SEGMENTS, create_statements
from ingest.store.open import hbase_statements, open_store
from ingest.store.port import RecordRow, StoreBatch
from tests.ingest.store.conftest import new_name
from tests.ingest.store.made import MINUTE, position, quality, row

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]

ROWS, CAMERAS = 4_000, 400
_REGION = re.compile(r"^ \S+ \| +\S+ \| +(\S*) \| +\S* \| +\d+ \| +(\d+) \|", re.M)
"""Start key and requests of a region, as `list_regions` prints them."""

Shell = Callable[[list[str]], str]


@pytest.fixture(scope="module")
def shell(hbase: Hbase) -> Shell:
    """Statements to what the shell says."""
    try:
        hbase_shell_jars()
    except Unavailable as missing:
        pytest.skip(f"HBase's shell: {missing}")
    return lambda statements: run_shell(hbase.folder / "conf", statements)


def test_a_store_made_beforehand_has_no_hot_region(hbase: Hbase, shell: Shell) -> None:
    """Records of many cameras in the order of time, as a city sends them; requests as HBase itself
    counts them. No region takes more than two and a half times its share."""
    url = f"hbase://{hbase.address}/{new_name()}"
    name = url.rsplit("/", 1)[1]
    shell(hbase_statements(url, RetentionSettings(), regions=8))
    store = open_store(url, "write")
    try:
        for at in range(0, ROWS, 1_000):
            batch = StoreBatch(
                rows=list(_rows(at, at + 1_000)),
                latency=_histograms,
                quality=[
                    quality(camera_ip=camera_of(number), valid=1) for number in range(CAMERAS)
                ],
            )
            store.apply(batch, [position(at + 1_000, at)])
        assert store.counts().stored == {"vehicle": ROWS}
    finally:
        store.close()
    for table in ("vehicle", CELLS):
        said = shell([f"list_regions '{name}_{table}'"])
        requests = [int(count) for _, count in _REGION.findall(said)]
        assert len(requests) == 8, said
        assert max(requests) <= 2.5 * sum(requests) / len(requests), said


def test_a_person_reads_a_record_in_the_shell(hbase: Hbase, shell: Shell) -> None:
    """The device's own JSON, and beside it as text what people look for."""
    name = new_name()
    store = open_store(f"hbase://{hbase.address}/{name}", "write")
    try:
        applied = store.apply(
            StoreBatch(rows=[row(1, body='{"车牌号码": "浙 AWL999"}'.encode())]), [position(1)]
        )
    finally:
        store.close()
    [salt] = keys.row_key("id-1")[:1]
    said = shell([f"get '{name}_vehicle', \"\\x{salt:02x}rid-1\", {{FORMATTER => 'toString'}}"])
    values = dict(re.findall(r"^ d:(\w+) +timestamp=\S+ value=(.*)$", said, re.M))
    assert values.pop("rest").startswith('{"captured_at_ms":')
    assert values == {
        "json": '{"车牌号码": "浙 AWL999"}',
        "kind": "vehicle",
        "plate": "浙 AWL999",
        "checkpoint": "110110#1#0#0",
        "captured": "2017-08-24T09:25:00.001+00:00",
        "stored": values["stored"],
        "attempt": str(applied.stored_at_ms),
    }


@pytest.mark.parametrize("regions", REGIONS)
def test_every_region_has_as_many_salts(regions: int) -> None:
    statements = create_statements("city", RetentionSettings(records_days=7), regions)
    assert len(statements) == len(CLASSES) + len(("rejected", SEGMENTS, CELLS, LEDGER))
    for statement in statements:
        [name] = re.findall(r"^create 'city_(\w+)', ", statement)
        starts = [int(text, 16) for text in re.findall(r'"\\x(..)"', statement)]
        wide = keys.SALTS if name == LEDGER else keys.SALTS // regions
        assert [0, *starts] == list(range(0, keys.SALTS, wide))
        assert ("TTL => 604800" in statement) is (name in CLASSES)


def camera_of(number: int) -> str:
    return f"10.0.{number // 200}.{number % 200}"


def _rows(start: int, end: int) -> Iterator[RecordRow]:
    for number in range(start, end):
        camera = number % CAMERAS
        plate = f"浙A{number:05d}"
        yield row(number, camera_ip=camera_of(camera), checkpoint_id=f"c{camera // 4}",
                  plate_number=plate, plate_key=plate)  # fmt: skip


def _histograms(rows: list[RecordRow]) -> list[LatencyCell]:
    return [
        LatencyCell(minute_ms=MINUTE, kind="vehicle", district_id="west", camera_ip=one.camera_ip,
                    buckets={7: 1}, attempt=0)
        for one in rows
    ]  # fmt: skip
