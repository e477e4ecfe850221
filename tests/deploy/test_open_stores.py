"""Where readers of stores come from: a search of console and commands goes by the site's own table."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from bus.domain.confusion_fit import JudgedReading, fitted
from bus.domain.confusion_table import PACKAGED, file_of
from bus.files.durable_file import replace_durably
from deploy.open_stores import open_records
from deploy.settings import composed
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordRow, StoreBatch


def test_a_search_goes_by_the_table_that_the_site_has_fitted_from_the_moment_it_is_written(tmp_path: Path) -> None:
    words = [f"site.data_dir={tmp_path}", "site.confusion_table=confusion.json"]
    settings = composed.load(None, words, {})
    row = RecordRow(
        record_id="r", kind="vehicle", checkpoint_id="c", district_id="", camera_ip="10.0.0.1", recognizer_ip="",
        captured_at_ms=1, received_at_ms=1, plate_number="浙AT0345", plate_key="浙AT0345", picture_url="", body=b"{}",
    )  # fmt: skip
    with closing(open_store(settings.store.records_url(settings.site), "write")) as store:
        store.apply(StoreBatch(rows=[row]), [])
    query = Query(plate="~0.6:浙A80345", tolerance="misread")
    judged = [JudgedReading(f"浙A8{number:04}", f"浙AT{number:04}", is_confirmed=True) for number in range(3_000)]
    table = file_of(fitted(judged, PACKAGED.counts).counts, fitted_at="", confirmed=1, false=0, letters=1)
    with closing(open_records(settings)) as reader:
        assert reader.query(query, PageRequest())[0] == []
        replace_durably(tmp_path / "confusion.json", table)
        assert [one.record_id for one in reader.query(query, PageRequest())[0]] == ["r"]
