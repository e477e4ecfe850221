"""The read side of either store: every filter against the plain truth, page by page."""

from __future__ import annotations

import random
from contextlib import closing

import msgspec
import pytest
from msgspec.structs import replace

from bus.domain.confusion_fit import JudgedReading, fitted
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.plates import folded, plate_form, plate_key
from bus.domain.searched_area import SearchedArea
from bus.domain.tolerant_search import SearchTolerance, accepts, tolerant_plate
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordRow, RecordStore, RejectedRow, StoreBatch

HOUR = 3_600_000
# As devices write them: whole, with what is no part of them, partly read, doubtful, not at all.
WRITTEN = ["无车牌", "浙A11111", "浙a1 1112", "浙B22222", "沪A·1[1]1\0", "沪A\u200b22111", "浙A1?111", "浙A*1112", "浙A1##12",
           "浙A***12", "浙A****5", "浙A-11111", "浙AD11111", "浙-B22222", "AB-102-CD", "?A11111", "***", "未知"]  # fmt: skip
ASKED = ["浙A11111", "浙A11112", "浙A*", "*2", "*1*1*", "沪A1[1]1", "沪A22?11", "*", "无车牌", "浙A-11111", "浙AD11111", "AB-102-CD",
         "ab102cd", "?A11111", "浙B2\u200b2222", "浙A??????", "浙A1?111", "浙A-1*", "***", "浙B22223", "AB-*", "x" * 17]  # fmt: skip

NARROW_AREA = SearchedArea(
    text="narrow", checkpoints=frozenset({"c1", "c4"}), devices=frozenset({"10.0.0.3"}),
    elsewhere=frozenset({"10.0.0.1"}), hanging=frozenset({"10.0.0.2", "10.0.0.4"}),
    known=frozenset({"c0", "c1", "c4"}),
)  # fmt: skip
"""`c2` and `c3` are in no register: their records are there whose device hangs there."""
WIDE_AREA = msgspec.structs.replace(
    NARROW_AREA, text="wide", checkpoints=frozenset({"c1", *(f"x{n}" for n in range(300))}),
    known=frozenset({"c0", "c1", *(f"x{n}" for n in range(300))}),
)  # fmt: skip
"""Of more checkpoints than a store looks up one by one."""
NOTHING_THERE = SearchedArea(text="nothing", known=frozenset({"c0", "c1", "c2", "c3"}))


def make_row(number: int, dice: random.Random) -> RecordRow:
    kind = dice.choice(["vehicle", "vehicle", "face", "person"])
    plate = dice.choice(WRITTEN) if kind == "vehicle" else ""
    return RecordRow(
        record_id=f"id-{number}", kind=kind, checkpoint_id=f"c{dice.randrange(4)}",
        district_id=f"d{dice.randrange(2)}", camera_ip=f"10.0.0.{dice.randrange(5)}", recognizer_ip="",
        # Few distinct times, some before 1970, so that pages break inside one moment and hours repeat.
        captured_at_ms=dice.randrange(-3, 5) * HOUR + dice.randrange(3) * 1000, received_at_ms=number,
        plate_number=plate, plate_key=plate_key(plate), body=f'{{"n": "第{number}"}}'.encode(),
    )  # fmt: skip


@pytest.fixture
def rows(dice: random.Random) -> list[RecordRow]:
    return [make_row(i, dice) for i in range(300)]


@pytest.fixture
def store(url: str, rows: list[RecordRow]):
    opened = open_store(url, "write")
    for at in range(0, len(rows), 37):
        opened.apply(StoreBatch(rows=rows[at : at + 37]), [])
    yield opened
    opened.close()


def plain(text: str) -> str:
    """What is a letter, a digit or a mark, of the texts above."""
    return "".join(one for one in text.upper() if one.isalnum() or one in "*?#-")


def meant(text: str, *, asked: bool) -> set[str]:
    """Each way to read a plate, or a pattern: `?` for one character."""
    text = plain(text).replace("#", "?")
    is_pattern = asked and "*" in text
    text = text if is_pattern else text.replace("*", "?")
    without = text.replace("-", "")
    may_mark = text.startswith(("浙", "沪")) and (is_pattern or len(text) in (7, 8))
    may_separate = not may_mark or is_pattern or len(without) in (7, 8)
    return ({without} if may_separate else set()) | ({text.replace("-", "?")} if may_mark else set())


def meets(pattern: str, plate: str) -> bool:
    """Character by character."""
    if not pattern or (not plate and pattern[0] != "*"):
        return not pattern and not plate
    if pattern[0] == "*":
        return meets(pattern[1:], plate) or (bool(plate) and meets(pattern, plate[1:]))
    return (pattern[0] == plate[0] or "?" in (pattern[0], plate[0])) and meets(pattern[1:], plate[1:])


def plate_matches(asked: str, written: str) -> bool:
    if asked == "无车牌" or len(asked) > 16:
        return written == asked
    if written in ("", "无车牌", "未知", "***"):
        return False
    return any(meets(p, w) for p in meant(asked, asked=True) for w in meant(written, asked=False))


def matches(row: RecordRow, q: Query) -> bool:
    return (
        (not q.plate or plate_matches(q.plate, row.plate_number))
        and (not q.kind or row.kind == q.kind)
        and (not q.checkpoint_id or row.checkpoint_id == q.checkpoint_id)
        and (not q.district_id or row.district_id == q.district_id)
        and (not q.camera_ip or row.camera_ip == q.camera_ip)
        and (not q.captured_from_ms or row.captured_at_ms >= q.captured_from_ms)
        and (not q.captured_until_ms or row.captured_at_ms < q.captured_until_ms)
        and (not q.record_id or row.record_id == q.record_id)
        and q.text.encode() in row.body
        and (q.area is None or is_within(row, q.area))
    )


def is_within(row: RecordRow, area: SearchedArea) -> bool:
    """The checkpoint decides, unless the device has an area of its own, or nobody knows it."""
    if row.camera_ip in area.devices:
        return True
    is_there = row.checkpoint_id in area.checkpoints
    is_by_device = row.checkpoint_id not in area.known and row.camera_ip in area.hanging
    return row.camera_ip not in area.elsewhere and (is_there or is_by_device)


def pages(store: RecordStore, query: Query, limit: int) -> list[RecordRow]:
    found: list[RecordRow] = []
    cursor = ""
    while True:
        page, cursor = store.query(query, PageRequest(limit=limit, cursor=cursor))
        found += page
        if not cursor:
            return found
        assert len(page) == limit


def test_every_question_gives_exactly_the_matching_rows_newest_first(
    url: str, store: RecordStore, rows: list[RecordRow], dice: random.Random
):
    """Random combinations of filters, read page by page, against a plain loop over all rows."""
    # Across a line a page of one row costs what a page of fifty does.
    questions, limits = (150, [1, 7, 50, 1000]) if url.startswith("sqlite") else (40, [17, 50, 1000])
    choices: dict[str, list[object]] = {
        "kind": ["vehicle", "face", "mover"], "plate": [*ASKED],
        "checkpoint_id": ["c1", "nowhere"], "district_id": ["d1"], "camera_ip": ["10.0.0.2", "10.9.9.9"],
        "captured_from_ms": [-HOUR, 1, HOUR, HOUR + 500], "captured_until_ms": [-HOUR, 2 * HOUR, 1, 999],
        "record_id": ["id-17"], "text": ["第1", "第29\""], "area": [NARROW_AREA, WIDE_AREA, NOTHING_THERE],
    }  # fmt: skip
    for _ in range(questions):
        names = dice.sample(sorted(choices), dice.choice([0, 1, 1, 2, 2, 3]))
        names += ["area"] * (dice.random() < 0.2 and "area" not in names)
        # Type: ignore[arg-type]
        query = Query(**{name: dice.choice(choices[name]) for name in names})
        expected = [row for row in rows if matches(row, query)]
        expected.sort(key=lambda row: -row.captured_at_ms)
        found = pages(store, query, dice.choice(limits))
        assert [r.captured_at_ms for r in found] == [r.captured_at_ms for r in expected], query
        assert sorted(r.record_id for r in found) == sorted(r.record_id for r in expected), query
        assert store.count(query) == len(expected), query


def test_every_plate_asked_for_gives_exactly_the_rows_of_a_plain_loop(
    store: RecordStore, rows: list[RecordRow]
):
    """Whole, masked and doubtful plates, patterns and plates with unseen characters; counted too."""
    for asked in ASKED:
        query = Query(plate=asked)
        expected = sorted(row.record_id for row in rows if matches(row, query))
        assert sorted(row.record_id for row in pages(store, query, 50)) == expected, asked
        assert store.count(query) == len(expected), asked
        if expected:
            one = Query(plate=asked, record_id=expected[0])
            assert [row.record_id for row in pages(store, one, 50)] == expected[:1], asked


@pytest.mark.parametrize("tolerance", ["distance 1", "misread"])
def test_a_plate_that_may_have_been_read_otherwise_gives_the_rows_of_a_plain_loop(
    tolerance: SearchTolerance, url: str, store: RecordStore, rows: list[RecordRow]
) -> None:
    """Each record once, in pages, with other filters beside it; counted, and asked of one record."""
    plates = ["浙A11111", "新AD1111", "浙A11112", "沪A22111", "浙AD11111", "浙B22227", "AB102CD"]
    for plate in plates if url.startswith("sqlite") else plates[:1]:
        asked = tolerant_plate(plate, tolerance)
        assert asked
        for query in (Query(plate=plate, tolerance=tolerance),
                      Query(plate=plate, tolerance=tolerance, checkpoint_id="c1", captured_from_ms=HOUR)):  # fmt: skip
            expected = sorted(
                row.record_id for row in rows
                if accepts(asked, plate_form(row.plate_number))
                and query.checkpoint_id in ("", row.checkpoint_id)
                and row.captured_at_ms >= (query.captured_from_ms or -9 * HOUR)
            )  # fmt: skip
            found = pages(store, query, 17)
            assert [row.captured_at_ms for row in found] == sorted((row.captured_at_ms for row in found), reverse=True)
            assert sorted(row.record_id for row in found) == expected, plate
            assert store.count(query) == len(expected), plate
        for row in rows[:3]:
            one = Query(plate=plate, tolerance=tolerance, record_id=row.record_id)
            assert store.count(one) == accepts(asked, plate_form(row.plate_number))
    if tolerance == "misread":
        marked, chosen = Query(plate="~浙A11111"), Query(plate="浙A11111", tolerance=tolerance)
        assert pages(store, marked, 50) == pages(store, chosen, 50) != []


def test_misreadings_are_searched_by_the_sites_own_table_as_it_is_at_the_moment(url: str, dice: random.Random) -> None:
    """8 read as T: nobody has counted that, but for this site; in the first half of a plate and in the second."""
    judged = [JudgedReading(f"浙A8{number:04}", f"浙AT{number:04}", is_confirmed=True) for number in range(3_000)]
    own = ConfusionTable("own", fitted(judged, PACKAGED.counts).counts)
    in_force = [PACKAGED]
    written = {"first": "浙AT0345", "second": "浙A0034T", "right": "浙A80345", "other": "浙A0034K"}
    with closing(open_store(url, "write")) as store:
        store.apply(StoreBatch(rows=[
            replace(make_row(number, dice), record_id=name, kind="vehicle", plate_number=plate, plate_key=plate)
            for number, (name, plate) in enumerate(written.items())
        ]), [])  # fmt: skip
    with closing(open_store(url, read_confusion=lambda: in_force[0])) as reader:
        for table, ids in ((PACKAGED, {"right"}), (own, {"first", "right"}), (PACKAGED, {"right"})):
            in_force[0] = table
            for query in (Query(plate="~0.6:浙A80345"), Query(plate="~0.6:浙A80345", kind="vehicle")):
                assert {row.record_id for row in pages(reader, query, 1)} == ids, table.version
                assert reader.count(query) == len(ids)
        in_force[0] = own
        assert {row.record_id for row in pages(reader, Query(plate="~0.6:浙A00348"), 1)} == {"second"}
        assert pages(reader, Query(plate="~0.6:浙A80345", record_id="first"), 1)
        in_force[0] = PACKAGED
        assert not pages(reader, Query(plate="~0.6:浙A80345", record_id="first"), 1)


def test_pages_stay_right_while_rows_arrive(
    store: RecordStore, rows: list[RecordRow], dice: random.Random
):
    """Keyset pages: nothing is shown twice or skipped because newer rows came in between."""
    first, cursor = store.query(Query(), PageRequest(limit=100))
    newer = [make_row(1000 + i, dice) for i in range(50)]
    store.apply(StoreBatch(rows=newer), [])
    rest: list[RecordRow] = []
    while cursor:
        page, cursor = store.query(Query(), PageRequest(limit=100, cursor=cursor))
        rest += page
    seen = [r.record_id for r in (*first, *rest)]
    assert len(seen) == len(set(seen))
    assert {r.record_id for r in rows} <= set(seen)


def test_a_plate_is_found_in_any_spelling(store: RecordStore, rows: list[RecordRow]):
    """The question is normalised as the records were."""
    expected = sum(matches(row, Query(plate="浙B22222")) for row in rows)
    assert store.count(Query(plate="浙 ｂ2\u200b2222")) == expected > 0


def test_plates_that_contain_a_part_are_found_the_latest_first(
    store: RecordStore, rows: list[RecordRow]
):
    """It matches any spelling and special characters literally; each plate is listed once."""
    for part in ("111", "浙 ａ", "B22", "[1]", "?", "2", "*", "无车牌", "", " ", "1\u200b1"):
        key = folded(part)
        last: dict[str, int] = {}
        for row in rows:
            if key and key in row.plate_key:
                last[row.plate_key] = max(row.captured_at_ms, last.get(row.plate_key, row.captured_at_ms))
        found = store.plates_containing(part)
        assert found.since_ms is None
        assert set(found.plates) == set(last), part
        moments = [last[plate] for plate in found.plates]
        assert moments == sorted(moments, reverse=True)
        assert list(store.plates_containing(part, limit=1).plates) == list(found.plates[:1])


@pytest.mark.parametrize("most", [1, 20, 90, 10_000])
def test_a_search_for_a_part_looks_at_a_bounded_number_and_says_since_when(
    store: RecordStore, rows: list[RecordRow], most: int
):
    """Everything since the moment it names was looked at; nothing is claimed of what is older."""
    found = store.plates_containing("1", most=most)
    with_plate = [row for row in rows if row.plate_key]
    assert (found.since_ms is None) == (most >= len(with_plate))
    since_ms = -9 * HOUR if found.since_ms is None else found.since_ms
    since = {row.plate_key for row in with_plate if row.captured_at_ms >= since_ms}
    assert {plate for plate in since if "1" in plate} <= set(found.plates)
    if most == 1:
        assert len(found.plates) <= 1


def test_a_reader_sees_what_the_writer_committed_and_nothing_before_there_is_a_store(url: str):
    """The console may start first."""
    reader = open_store(url)
    assert reader.query(Query(), PageRequest()) == ([], "")
    assert reader.count(Query(kind="face")) == 0
    assert reader.counts().stored == {}
    writer = open_store(url, "write")
    assert reader.counts().stored == {}
    writer.apply(StoreBatch(rows=[make_row(1, random.Random(1))]), [])
    assert reader.count(Query()) == 1
    reader.close()
    writer.close()


def test_rejected_records_are_paged_newest_first(url: str):
    """By the order of storing; each is found by its id too."""
    store = open_store(url, "write")
    bad = [
        RejectedRow(record_id=str(i), kind="face" if i % 3 else "video", reason="no-time" if i % 2 else "not-json",
                    field="", camera_ip="", recognizer_ip="", checkpoint_id="", source="", received_at_ms=i, body=b"")
        for i in range(20)
    ]  # fmt: skip
    for at in range(0, len(bad), 5):
        store.apply(StoreBatch(rejected=bad[at : at + 5]), [])
    cursor, seen, times = "", [], []
    while True:
        page, cursor = store.rejected(kind="face", reason="", page=PageRequest(limit=4, cursor=cursor))
        seen += [r.record_id for r in page]
        times += [r.stored_at_ms for r in page]
        if not cursor:
            break
    assert sorted(seen) == sorted(str(i) for i in range(20) if i % 3)
    assert times == sorted(times, reverse=True)
    for row in (bad[0], bad[19]):
        found = store.rejected_record(row.record_id)
        assert found is not None
        assert (found.record_id, found.kind, found.reason) == (row.record_id, row.kind, row.reason)
    assert store.rejected_record("20") is None
    store.close()
