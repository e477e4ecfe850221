"""What a rule would have hit among stored records: all that it would have, each once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm import preview
from alarm.preview import preview_piece
from alarm.rules import attributes_of, compile_rules
from bus.contracts.commands import WatchCommand
from bus.contracts.register import Checkpoint, District, Register
from bus.domain.expressions.parse import parse
from bus.domain.plates import plate_key
from bus.domain.registered_places import RegisteredPlaces
from bus.domain.rule_preview import DAY_MS, InvalidWindow, PreviewPiece, PreviewRequest
from ingest.store.open import open_store
from ingest.store.port import InvalidCursor, RecordReader, RecordRow, StoreBatch

BEGIN_MS = 1_760_000_000_000
RECORDS = 1_500
PLATES = ("浙A12345", "浙A12346", "浙B12345", "浙A-12345", "浙A1?345", "浙A1-345", "无车牌", "沪C00001")
COLOURS = ("白色", "黑色", "识别异常")


def put(**match: list[str]) -> WatchCommand:
    return WatchCommand(rule_id="r", op="put", version=1, name="r", match=match)


RULES = [
    put(plate_number=["浙A12345"]),
    put(plate_number=["浙A12345", "浙A1234?", "沪C00001"]),
    put(plate_number=["浙?12345", "*2345"], vehicle_color=["白色"]),
    put(plate_number=["浙AB12345"]),  # a reading with a doubtful hyphen may be this one
    put(vehicle_color=["白色", "黑色"]),
    put(checkpoint_id=["k-1"], vehicle_color=["黑色"]),
    put(plate_number=["~浙A12345", "沪C00001"]),
    msgspec.structs.replace(put(plate_number=["~浙A12345"]), where=parse("vehicle_color = 白色", "vehicle")),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[RecordRow]]:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    rows = [_row(dice, number) for number in range(RECORDS)]
    url = f"sqlite://{tmp_path_factory.mktemp('preview')}/records.db"
    with closing(open_store(url, "write")) as store:
        store.apply(StoreBatch(rows=rows), [])
    return url, rows


def _row(dice: random.Random, number: int) -> RecordRow:
    plate, place = dice.choice(PLATES), f"k-{dice.randrange(3)}"
    at_ms = BEGIN_MS + dice.randrange(2 * DAY_MS)
    body = {"卡口编号": place, "车牌号码": plate, "车辆颜色": dice.choice(COLOURS), "抓拍时间": at_ms}
    kind = "vehicle" if number % 20 else "face"
    return RecordRow(
        record_id=f"id-{number}", kind=kind, checkpoint_id=place, district_id="d", camera_ip="10.0.0.1",
        recognizer_ip="", captured_at_ms=at_ms, received_at_ms=at_ms + 50, plate_number=plate,
        plate_key=plate_key(plate), body=msgspec.json.encode(body),
    )  # fmt: skip


@pytest.fixture
def reader(stored: tuple[str, list[RecordRow]]) -> Iterator[RecordReader]:
    with closing(open_store(stored[0], "read")) as opened:
        yield opened


def pieces(reader: RecordReader, rule: WatchCommand, day: int) -> Iterator[PreviewPiece]:
    cursor = ""
    while True:
        begin_ms = BEGIN_MS + day * DAY_MS
        asked = PreviewRequest(from_ms=begin_ms, until_ms=begin_ms + DAY_MS, cursor=cursor)
        piece = preview_piece(reader, rule, asked)
        yield piece
        cursor = piece.cursor
        if not cursor:
            return


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: " ".join(rule.match))
@pytest.mark.parametrize("size", [7, 5_000])
def test_a_preview_counts_what_the_watch_list_would_have_found(
    reader: RecordReader, stored: tuple[str, list[RecordRow]], rule: WatchCommand, size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In pieces of any size; a record that two plates of a rule find counts once."""
    monkeypatch.setattr(preview, "PIECE_ROWS", size)
    rules = compile_rules([rule])
    for day in range(2):
        hits: Counter[str] = Counter()
        for piece in pieces(reader, rule, day):
            assert piece.read <= size
            hits.update(piece.hits)
        begin_ms = BEGIN_MS + day * DAY_MS
        expected = Counter(
            row.checkpoint_id
            for row in stored[1]
            if begin_ms <= row.captured_at_ms < begin_ms + DAY_MS
            and rules.match(row.kind, attributes_of(row.kind, msgspec.json.decode(row.body)))
        )
        assert hits == expected
        assert expected.total() > 10


def test_a_plate_is_looked_up_and_not_looked_for_in_all_records(reader: RecordReader) -> None:
    rare = put(plate_number=["沪C00001"])
    read = sum(piece.read for piece in pieces(reader, rare, 0))
    everything = sum(piece.read for piece in pieces(reader, RULES[4], 0))
    assert 0 < read < everything / 2


@pytest.mark.parametrize("cursor", ["x", "7:", "0:x", "-1:", "0:1.2.3", "٣:", ":", "0" * 400])
def test_a_cursor_of_something_else_is_refused(reader: RecordReader, cursor: str) -> None:
    asked = PreviewRequest(from_ms=BEGIN_MS, until_ms=BEGIN_MS + DAY_MS, cursor=cursor)
    with pytest.raises(InvalidCursor):
        preview_piece(reader, RULES[0], asked)


@pytest.mark.parametrize(("begin_ms", "end_ms"), [(5, 5), (9, 5), (-1, 5), (0, 2 * DAY_MS)])
def test_a_window_beyond_a_day_is_refused(
    reader: RecordReader, begin_ms: int, end_ms: int
) -> None:
    with pytest.raises(InvalidWindow):
        preview_piece(reader, RULES[0], PreviewRequest(from_ms=begin_ms, until_ms=end_ms))


def test_before_anything_is_stored_nothing_would_have_been_hit(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite://{tmp_path}/none.db", "read")) as empty:
        found = preview_piece(empty, RULES[0], PreviewRequest(from_ms=0, until_ms=DAY_MS))
    assert found == PreviewPiece(hits={}, read=0)


def test_a_rule_that_names_a_place_is_previewed_with_the_register(
    reader: RecordReader, stored: tuple[str, list[RecordRow]]
) -> None:
    """Without one nothing is known to lie there."""
    at = [Checkpoint(checkpoint_id=f"k-{n}", name="", name_en="", district_id=f"d{n}", latitude=30,
                     longitude=120 + n) for n in range(2)]  # fmt: skip
    district = District(district_id="d1", name="老城区", name_en="")
    places = RegisteredPlaces(Register(districts=(district,), checkpoints=tuple(at)))
    rule = msgspec.structs.replace(put(), where=parse("in district 老城区", "vehicle"))
    asked = PreviewRequest(from_ms=BEGIN_MS, until_ms=BEGIN_MS + DAY_MS)
    expected = sum(
        row.checkpoint_id == "k-1" and row.kind == "vehicle" and row.captured_at_ms < asked.until_ms
        for row in stored[1]
    )
    assert preview_piece(reader, rule, asked, places).hits == {"k-1": expected}
    assert preview_piece(reader, rule, asked).hits == {}
