"""What only the embedded store has: a file, its disk, its lock and its indexes."""

from __future__ import annotations

import random
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.domain.former_plates import former_key
from bus.domain.plates import plate_key
from bus.domain.retention import RetentionSettings
from ingest.store.open import open_store
from ingest.store.port import (
    PageRequest,
    Query,
    RecordStore,
    StoreBatch,
    StoreError,
    StoreUnavailable,
)
from ingest.store.sqlite import schema, sums
from ingest.store.sqlite.facets import HOUR_MS
from ingest.store.sqlite.query import records_statement
from ingest.store.sqlite.writer import SqliteStore
from tests.ingest.store.made import position, row
from tests.ingest.store.test_chart_sums import assert_sums_are_those_of_the_cells, batch_of

VERSION_5 = Path(__file__).with_name("records_version_5.zip")
"""Made by the program before there were sums: 288 cells of two days."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/store/records.db"


@pytest.fixture
def store(url: str) -> Iterator[RecordStore]:
    opened = open_store(url, "write")
    yield opened
    opened.close()


def test_a_full_disk_is_told_and_heals(tmp_path: Path):
    """SQLite's own page limit stands for the disk: the batch fails whole, and succeeds when there
    is room."""
    store = open_store(f"sqlite://{tmp_path}/records.db", "write")
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages + 2}")
    batch = StoreBatch(rows=[row(i, body=b"x" * 2000) for i in range(200)])
    with pytest.raises(StoreUnavailable, match="full"):
        store.apply(batch, [position(200, 0)])
    assert store.count(Query()) == 0
    store._db.execute("PRAGMA max_page_count = 1000000")
    assert store.apply(batch, [position(200, 0)]).stored == 200
    store.close()


def test_there_is_one_writer(store: RecordStore, url: str):
    """A second writing process is refused at once."""
    with pytest.raises(StoreUnavailable, match="another process"):
        open_store(url, "write")


def test_a_later_programs_file_is_refused(url: str):
    """Better no answer than a wrong one."""
    store = open_store(url, "write")
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(StoreError, match="99"):
        open_store(url, "write")
    with pytest.raises(StoreError, match="99"):
        open_store(url).counts()


def test_leading_indexes_are_used(store: RecordStore):
    """No question that an operator asks often may scan the table."""
    for query in (
        Query(),
        Query(plate="浙A11111"),
        Query(checkpoint_id="c1"),
        Query(kind="face"),
        Query(camera_ip="x"),
    ):
        statement = records_statement(query, PageRequest())
        plan = store._rows(type(statement)("EXPLAIN QUERY PLAN " + statement.sql, statement.values))
        text = " | ".join(row[3] for row in plan)
        assert "SCAN r " not in f"{text} " or "records_by_capture" in text, (query, text)
        # The hits of one hour may be sorted: of a plate, whole and partly read ones.
        of_an_hour = text.replace("TEMP B-TREE FOR RIGHT PART OF ORDER BY", "") if query.plate else text
        assert "TEMP B-TREE" not in of_an_hour or query.camera_ip, (query, text)
        assert "SCAN f" not in text, (query, text)
        assert text.count("SEARCH f USING PRIMARY KEY (hour=? AND facet=?") == text.count("SEARCH f")


def test_a_file_of_the_first_version_opens_and_keeps_its_records(tmp_path: Path) -> None:
    """Its clocks were not judged; a reader waits for the writer that brings it up to date."""
    path = tmp_path / "records.db"
    old = sqlite3.connect(path)
    old.executescript(f"BEGIN; {schema._VERSION_1} PRAGMA user_version = 1; COMMIT;")
    old.execute(
        "INSERT INTO records (record_id, kind, checkpoint_id, district_id, camera_ip, recognizer_ip,"
        " captured_at_ms, received_at_ms, plate_number, plate_key, plate_color, vehicle_color,"
        " vehicle_type, vehicle_brand, vehicle_series, picture_url, partly_read, replayed, body,"
        " stored_at_ms) VALUES ('old', 'vehicle', 'c', '', '', '', 5, 6, '', '', '', '', '', '',"
        " '', '', 0, 0, x'7b7d', 7)"
    )
    old.execute("INSERT INTO quality VALUES (0, 'vehicle', 'c', '', 9, 8, 7, 6)")
    old.commit()
    old.close()
    reader = open_store(f"sqlite://{path}")
    assert reader.query(Query(), PageRequest(limit=9)) == ([], "")
    open_store(f"sqlite://{path}", "write").close()
    ((kept,), _) = reader.query(Query(), PageRequest(limit=9))
    assert (kept.record_id, kept.captured_at_ms, kept.clock_off_ms) == ("old", 5, 0)
    (cell,) = reader.quality(from_ms=0, until_ms=1)
    assert (cell.sent, cell.valid, cell.stored, cell.duplicates) == (9, 7, 7, 0)
    assert (cell.accepted, cell.missing) == (0, 0)
    reader.close()


def test_plates_of_a_file_of_version_7_are_found_in_the_normal_form_and_forgotten_whole(tmp_path: Path) -> None:
    """Unseen characters and hyphens inside, masked ones, and those that stay as they are."""
    path = tmp_path / "records.db"
    old = sqlite3.connect(path)
    for script in schema._MIGRATIONS[:7]:
        old.executescript(script)
    written = ["浙A10002\0\0", "浙A1\u200b0003", "AB-102-CD", "浙B1*345", "浙A-12345", "浙C12345", "无车牌", "AB.103.CD"]
    for number, plate in enumerate(written):
        made = row(number, plate_number=plate, plate_key=former_key(plate))
        names = list(made.__struct_fields__)
        values = [getattr(made, name) for name in names]
        old.execute(f"INSERT INTO records ({','.join(names)}) VALUES ({','.join('?' * len(names))})", values)
    old.execute(f"INSERT INTO hours SELECT DISTINCT captured_at_ms / {HOUR_MS} FROM records")
    old.execute(f"INSERT INTO facets SELECT captured_at_ms / {HOUR_MS}, 1, plate_key, captured_at_ms, id FROM records WHERE plate_key <> ''")
    old.execute(f"INSERT INTO facets SELECT captured_at_ms / {HOUR_MS}, 2, checkpoint_id, captured_at_ms, id FROM records")
    old.execute("PRAGMA user_version = 7")
    old.commit()
    old.close()
    opened = open_store(f"sqlite://{path}", "write", keep=RetentionSettings(records_days=1))
    for asked, plate in (("浙A10002", written[0]), ("浙A10003", written[1]), ("AB102CD", written[2]), ("浙B12345", written[3]),
                         ("浙A12345", written[4]), ("浙AD12345", written[4]), ("浙C12345", written[5]), ("无车牌", written[6]),
                         ("AB.103.CD", written[7]), ("AB103CD", written[7])):  # fmt: skip
        rows, _ = opened.query(Query(plate=asked), PageRequest())
        assert [one.plate_number for one in rows] == [plate], asked
        assert rows[0].plate_key == plate_key(plate)
    found, _ = opened.query(Query(plate="*002"), PageRequest())
    assert [one.plate_number for one in found] == [written[0]]  # by the index of endings
    found, _ = opened.query(Query(plate="浙C12346", tolerance="distance 1"), PageRequest())
    assert [one.plate_number for one in found] == [written[5]]
    with opened._db:
        opened._retention.forget(1 << 50, 100)
    assert opened._db.execute("SELECT count(*) FROM facets").fetchone() == (0,)
    opened.close()


def test_the_cells_of_a_file_of_version_5_are_summed_up_in_slices(
    tmp_path: Path, dice: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charts had no sums: the newest minutes come first, a few after each batch; what batches
    change meanwhile in minutes already taken, and in those that are not, counts once."""
    with zipfile.ZipFile(VERSION_5) as archive:
        archive.extractall(tmp_path)
    monkeypatch.setattr(sums, "SLICE_CELLS", 20)
    store = SqliteStore(tmp_path / "records.db")
    before = store.quality(from_ms=0, until_ms=0)
    assert len(before) == 288
    slices, end = 0, 1_000
    while not store._sums.is_complete():
        slices += 1
        end += 1
        store.apply(batch_of(dice), [position(end, end - 1)])
    assert slices > 5
    assert_sums_are_those_of_the_cells(store)
    old = [cell for cell in store.quality(from_ms=0, until_ms=0) if cell.valid > cell.stored]
    assert sum(cell.duplicates for cell in old) > 0
    store.close()


def test_pages_kept_for_a_large_batch_are_bounded_again_with_the_next_usual_one(url: str) -> None:
    """What broke: 64 MiB of pages, which one large batch needs, were filled and kept by usual ones."""
    with closing(SqliteStore(Path(url.removeprefix("sqlite://")))) as store:
        found, end = [], 0
        for rows in (10, schema.LARGE_BATCH_ROWS, 10):
            made = [row(end + number) for number in range(rows)]
            store.apply(StoreBatch(rows=made), [position(end + rows, end)])
            end += rows
            found.append(-int(store._db.execute("PRAGMA cache_size").fetchone()[0]))
    assert found == [schema.CACHE_KIB, schema.LARGE_CACHE_KIB, schema.CACHE_KIB]
