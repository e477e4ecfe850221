"""What only the embedded store has: a file, its disk, its lock and its indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.store import open_store
from ingest.store.port import Page, Query, RecordStore, StoreBatch, StoreError, StoreUnavailable
from ingest.store.sqlite_query import records_statement
from tests.ingest.store.made import position, row


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
    """A second writing process is told so at once."""
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
        statement = records_statement(query, Page())
        plan = store._rows(type(statement)("EXPLAIN QUERY PLAN " + statement.sql, statement.values))
        text = " | ".join(row[3] for row in plan)
        assert "SCAN r " not in f"{text} " or "records_by_capture" in text, (query, text)
        assert "TEMP B-TREE" not in text or query.camera_ip, (query, text)
