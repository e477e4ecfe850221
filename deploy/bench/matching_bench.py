"""What the watch list costs a record: message bytes to candidates, in the function that Spark runs.

In: how often. Out: CPU time of this process per record, with ten thousand wildcards and ten
thousand trees in force, and with ten times as many; those that come on top are for cars that do not
pass, so that a record meets as many rules as before. Never: a plate twice: nothing is remembered.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from alarm.rules import RuleSet, compile_rules
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import DATA_VEHICLE
from bus.domain.rule_check import parsed_where
from bus.domain.rule_demand import MAX_REGULAR_EXPRESSIONS
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from ingest.senders.simulator import names as city_names
from spark_apps.apps.watchlist import candidates
from spark_apps.batches.message import StreamMessage

NAMES = ("matching-record", "matching-growth")
RULES_EACH = 10_000
TIMES_MORE = 10
RECORDS, BATCH, WARM_UP = 20_000, 100, 2_000
ZONE, BEGIN_MS = "Asia/Shanghai", 1_772_330_400_000
KIND = "vehicle"
_LETTERS, _LETTERS_ELSEWHERE = "ABCDEFGHJKLM", "NPQRSTUVWXYZ"
"""With which the serials of cars begin that pass here, and that do not."""
_REGIONS = [region for region, weight in city_names.PLATE_REGIONS for _ in range(weight)]
_COLORS = [color for color, _ in city_names.VEHICLE_COLORS]


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """Both sizes in each run, one after the other, on the same records."""
    if not names:
        return
    runs = SampleRecorder(names, repeat, say)
    for seed in range(repeat):
        for name, value in (attempt("the watch list", partial(_run, seed), say) or {}).items():
            if name in names:
                runs.add(name, value, of="ours")
        yield from runs.samples()


def _run(seed: int) -> dict[str, float]:
    messages = list(made_messages(random.Random(seed), RECORDS + WARM_UP))
    few = _record_us(compile_rules(made_rules(random.Random(seed), RULES_EACH)), messages)
    more = made_rules(random.Random(seed), RULES_EACH * TIMES_MORE)
    many = _record_us(compile_rules(more), messages)
    return {"matching-record": few, "matching-growth": many / few}


def _record_us(rules: RuleSet, messages: Sequence[StreamMessage]) -> float:
    gc.collect()
    gc.freeze()  # as Spark's driver and its workers do
    _match(rules, messages[:WARM_UP])
    began = time.process_time()
    _match(rules, messages[WARM_UP:])
    used_s = time.process_time() - began
    gc.unfreeze()
    return used_s / RECORDS * 1e6


def _match(rules: RuleSet, messages: Sequence[StreamMessage]) -> None:
    for begin in range(0, len(messages), BATCH):
        for _ in candidates(rules, messages[begin : begin + BATCH], ZONE):
            pass


def made_messages(rng: random.Random, count: int) -> Iterator[StreamMessage]:
    """Records of a city, each with a plate of its own."""
    for number, serial in enumerate(rng.sample(range(len(_LETTERS) * 10_000), count)):
        letter, digits = _LETTERS[serial % len(_LETTERS)], f"{serial // len(_LETTERS):04d}"
        brand, body, series, _ = rng.choice(city_names.MODELS)
        message = {
            "卡口编号": f"330100-{rng.randrange(200):03d}", "抓拍时间": "2026-03-01 10:00:00.250",
            "抓拍设备地址": f"10.1.0.{rng.randrange(250)}", "记录编号": f"{number:012d}",
            "车牌号码": f"{_REGIONS[serial % len(_REGIONS)]}{letter}{digits}", "车牌颜色": "蓝色",
            "车辆颜色": rng.choice(_COLORS), "车型类别": body, "车辆品牌": brand, "车系": series,
            "年检标识": "是", "纸巾盒": "否", "驾驶位是否系安全带": "是",
            "副驾驶位是否系安全带": "是", "车道编号": 1 + rng.randrange(3),
            "行驶方向": rng.choice(city_names.DIRECTIONS), "车速": rng.randrange(20, 120),
            "车牌置信度": 97, "车辆图片地址": f"/pictures/{number:012d}.jpg",
        }  # fmt: skip
        yield StreamMessage(
            DATA_VEHICLE, 0, number, BEGIN_MS, msgspec.json.encode(message), record_id=f"r{number}"
        )


def made_rules(rng: random.Random, each: int) -> Iterator[WatchCommand]:
    """So many wildcards, a third of each shape, and so many trees: parts of plates, alternatives,
    exceptions and speeds, and as many regular expressions as there may be in force."""
    for number in range(each):
        plate = _plate(rng, number)
        at = rng.randrange(3, len(plate))
        shapes = (f"{plate[:at]}?{plate[at + 1 :]}", f"{plate[:6]}*", f"*{plate[1:]}")
        yield WatchCommand(
            rule_id=f"wildcard-{number}", op="put", version=1,
            match={"plate_number": [shapes[number % len(shapes)]]},
        )  # fmt: skip
    for number in range(each):
        text = _text(rng, number, is_regular=number < MAX_REGULAR_EXPRESSIONS)
        yield WatchCommand(
            rule_id=f"tree-{number}", op="put", version=1, where=parsed_where(KIND, text, ZONE)
        )


def _text(rng: random.Random, number: int, *, is_regular: bool) -> str:
    plate, other = _plate(rng, number), _plate(rng, number)
    brand = rng.choice(city_names.MODELS)[0]
    if is_regular:
        return f'plate_number matches ".?.?{plate[2:]}[0-9A-Z]?"'
    return (
        f"plate_number contains {plate[2:]}",
        f"plate_number contains {plate[2:]} and not vehicle_color in (白色, 黑色)"
        " and speed_kmh > 80",
        f"plate_number like *{plate[1:]} or vehicle_brand = {brand} and plate_number = {other}",
    )[number % 3]


def _plate(rng: random.Random, number: int) -> str:
    letters = _LETTERS if number < RULES_EACH else _LETTERS_ELSEWHERE
    return f"{rng.choice(_REGIONS)}{rng.choice(letters)}{rng.randrange(10_000):04d}"
