"""What all conditions on plates at once cost a record: from the bytes of its message to candidates.

In: a seed. Out: microseconds of this process per record, with a list of a million plates that takes
look-alikes, ten thousand wildcards (a third of each shape) and ten thousand fuzzy plates in force;
and with ten times as many of the latter two. No plate comes twice; readings are drawn as the reader
of the held-out counts errs. Never: a rule in one size that the other lacks, among the first.
"""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from alarm.lists.table import PlateTable, build_table
from alarm.rules import RuleSet, compile_rules
from alarm.rules.plate_lists import PlateList
from alarm.rules.references import References
from bus.contracts.commands import WatchCommand
from bus.contracts.plate_lists import ListLine, ListRecord
from bus.contracts.topics import DATA_VEHICLE
from bus.domain.fuzzy_plate import MARK
from bus.domain.rule_values import PLATE
from deploy.bench.plates.drawing import DIGITS, LETTERS, drawn_plate, drawn_serial
from ingest.senders.simulator.plate_misreader import PlateMisreader
from spark_apps.apps.watchlist import candidates
from spark_apps.batches.message import StreamMessage

LINES, RULES_EACH, TIMES_MORE = 1_000_000, 10_000, 10
BATCHES, BATCH = 200, 100
_PROVINCE, _ZONE, _AT_MS = "浙", "Asia/Shanghai", 1_796_000_000_000


class MatchingCost(NamedTuple):
    """Microseconds a record, with so many rules and with ten times as many."""

    few_us: float
    many_us: float


def matching_cost(seed: int, lines: int = LINES, each: int = RULES_EACH) -> MatchingCost:
    """One run of both sizes, on the same records."""
    with TemporaryDirectory() as folder:
        references = References({"stolen": made_list(Path(folder) / "base.table", seed, lines)})
        rng = random.Random(f"alarms:{seed}")
        plates = _different_plates(rng)
        messages = list(_messages(rng, islice(plates, BATCHES * BATCH)))
        rules = list(_rules(rng, islice(plates, each * 2 * TIMES_MORE), each * TIMES_MORE))
        few = [one for one in rules if int(one.rule_id[1:]) < each]
        sizes = [_record_us(compile_rules(own, references), messages) for own in (few, rules)]
    return MatchingCost(*sizes)


def made_list(path: Path, seed: int, lines: int, version: int = 1) -> PlateList:
    """A list of plates of all provinces, which takes look-alikes."""
    rng = random.Random(f"list:{seed}")
    drawn = (drawn_plate(rng)[0] for _ in range(lines))
    build_table((ListLine(at, plate, f"case {at % 997}") for at, plate in enumerate(drawn)), path)
    record = ListRecord(
        list_id="stolen", op="put", version=version, name="stolen", tolerance="look-alikes"
    )
    return PlateList(record, PlateTable.open(path), {}, frozenset())


def _record_us(rules: RuleSet, messages: list[StreamMessage]) -> float:
    _match(rules, messages[:BATCH])  # prices are made at the first look
    gc.collect()
    gc.freeze()  # as Spark's driver and its workers do
    begin = time.process_time()
    for at in range(0, len(messages), BATCH):
        _match(rules, messages[at : at + BATCH])
    used_s = time.process_time() - begin
    gc.unfreeze()
    return used_s / len(messages) * 1e6


def _match(rules: RuleSet, messages: list[StreamMessage]) -> None:
    deque(candidates(rules, messages, _ZONE), maxlen=0)


def _different_plates(rng: random.Random) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        plate = f"{_PROVINCE}{rng.choice(LETTERS)}{drawn_serial(rng)}"
        if plate not in seen:
            seen.add(plate)
            yield plate


def _rules(rng: random.Random, plates: Iterator[str], each: int) -> Iterator[WatchCommand]:
    """So many fuzzy plates and so many wildcards, none of a plate that passes; their ids end with
    their numbers."""
    for number in range(each):
        yield _rule(f"f{number}", f"{MARK}{next(plates)}")
        plate = next(plates)
        at = rng.randrange(2, len(plate))
        shapes = (f"{plate[:at]}?{plate[at + 1 :]}", f"{plate[:6]}*", f"*{plate[2:]}")
        yield _rule(f"w{number}", shapes[number % len(shapes)])


def _rule(rule_id: str, plate: str) -> WatchCommand:
    return WatchCommand(rule_id=rule_id, op="put", version=1, match={PLATE: [plate]})


def _messages(rng: random.Random, plates: Iterator[str]) -> Iterator[StreamMessage]:
    misreader = PlateMisreader(rng)
    for offset, plate in enumerate(plates):
        read, sure = misreader.read(plate)
        said = ",".join(f"{sign}-{own}" for sign, own in zip(read, sure, strict=True))
        message = {
            "卡口编号": f"33010{rng.choice(DIGITS)}", "抓拍时间": "2026-11-29 08:00:00.000",
            "抓拍设备地址": "10.1.1.1", "车牌号码": read, "车牌颜色": "蓝色", "车辆颜色": "白色",
            "车型类别": "轿车", "车速": 43, "车牌逐字置信度": said,
        }  # fmt: skip
        yield StreamMessage(DATA_VEHICLE, 0, offset, _AT_MS, msgspec.json.encode(message))
