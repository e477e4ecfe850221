"""What fuzzy rules cost a record: from the bytes of its message to the candidates.

In: how many rules. Out: microseconds a record. The rules and the records have plates of one
province; no plate comes twice, so that nothing that is remembered helps. Readings are drawn as the
reader of the held-out counts errs, with what it says of each character.
"""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from collections.abc import Iterator

import msgspec

from alarm.rules import RuleSet, compile_rules
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import DATA_VEHICLE
from bus.domain.fuzzy_plate import MARK
from bus.domain.rule_values import PLATE
from deploy.bench.plates.drawing import LETTERS, drawn_serial
from ingest.senders.simulator.plate_misreader import PlateMisreader
from spark_apps.apps.watchlist import candidates
from spark_apps.batches.message import StreamMessage

RULES, TIMES_MORE = 10_000, 10
BATCHES, BATCH = 200, 100
_PROVINCE = "浙"
_ZONE = "Asia/Shanghai"
AT_MS = 1_796_000_000_000


def us_per_record(seed: int, rules: int, batches: int = BATCHES) -> float:
    """The whole of all batches, by the time of this process, over their records."""
    rng = random.Random(f"fuzzy cost:{seed}")
    plates = _different_plates(rng)
    in_force = _rules(plates, rules)
    messages = list(_messages(rng, plates, batches * BATCH))
    match(in_force, messages[:BATCH])  # prices are made at the first look
    gc.collect()
    begin = time.process_time()
    for at in range(0, len(messages), BATCH):
        match(in_force, messages[at : at + BATCH])
    return (time.process_time() - begin) / len(messages) * 1e6


def match(rules: RuleSet, messages: list[StreamMessage]) -> None:
    """One batch; what is found is thrown away."""
    deque(candidates(rules, messages, _ZONE), maxlen=0)


def _different_plates(rng: random.Random) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        plate = f"{_PROVINCE}{rng.choice(LETTERS)}{drawn_serial(rng)}"
        if plate not in seen:
            seen.add(plate)
            yield plate


def _rules(plates: Iterator[str], count: int) -> RuleSet:
    return compile_rules(
        WatchCommand(rule_id=f"r{number}", op="put", version=1, match={PLATE: [f"{MARK}{plate}"]})
        for number, plate in zip(range(count), plates, strict=False)
    )


def _messages(rng: random.Random, plates: Iterator[str], count: int) -> Iterator[StreamMessage]:
    misreader = PlateMisreader(rng)
    for offset, plate in zip(range(count), plates, strict=False):
        read, sure = misreader.read(plate)
        value = msgspec.json.encode(message_of(read, sure))
        yield StreamMessage(DATA_VEHICLE, 0, offset, AT_MS, value)


def message_of(read: str, sure: tuple[int, ...]) -> dict[str, object]:
    """Of a passing car, by what its plate was read as and how sure the reader is of each sign."""
    said = ",".join(f"{sign}-{own}" for sign, own in zip(read, sure, strict=True))
    return {
        "卡口编号": "33010001",
        "抓拍时间": "2026-11-29 08:00:00.000",
        "抓拍设备地址": "10.1.1.1",
        "车牌号码": read,
        "车牌颜色": "蓝色",
        "车辆颜色": "白色",
        "车型类别": "轿车",
        "车速": 43,
        "车牌逐字置信度": said,
    }
