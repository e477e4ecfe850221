"""What all conditions on plates at once cost a record: from the bytes of its message to candidates.

In: a seed. Out: microseconds of this process per record, with a list of a million plates that takes
look-alikes, ten thousand wildcards (a third of each shape) and ten thousand fuzzy plates in force;
how many times that is with ten times as many of the latter two, of which those on top are for cars
that do not pass; the list's memory; milliseconds of a verdict. No plate comes twice; readings are
drawn as the reader of the held-out counts errs. Never: a figure of another list.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from alarm.lists.table import PlateTable, build_table
from alarm.rules import RuleSet, compile_rules, verdict
from alarm.rules.plate_lists import PlateList
from alarm.rules.references import References
from bus.contracts.alarms import Candidate
from bus.contracts.commands import WatchCommand
from bus.contracts.plate_lists import ListLine, ListRecord
from bus.contracts.topics import DATA_VEHICLE
from bus.domain.fuzzy_plate import MARK
from bus.domain.rule_values import PLATE
from deploy.bench.alarms.list_memory import memory_of
from deploy.bench.fuzzy.cost import AT_MS, BATCH, BATCHES, match, message_of
from deploy.bench.plates.drawing import DIGITS, LETTERS, drawn_plate, drawn_serial
from deploy.errors import OperatorError
from ingest.senders.simulator.plate_misreader import PlateMisreader
from spark_apps.batches.message import StreamMessage

LINES, RULES_EACH, TIMES_MORE = 1_000_000, 10_000, 10
VERDICTS = 2_000
_PROVINCE = "浙"

COST, GROWTH = "alarms-us", "alarms-us-growth"
MACHINE, WORKER, VERDICT = "alarms-list-machine", "alarms-list-worker", "alarms-verdict"
NAMES = (COST, GROWTH, MACHINE, WORKER, VERDICT)


def matching_figures(seed: int, lines: int = LINES, each: int = RULES_EACH) -> dict[str, float]:
    """One run of all of them, both sizes on the same records."""
    with TemporaryDirectory(prefix="databus-bench-") as folder:
        path = Path(folder) / "base.table"
        references = References({"stolen": _made_list(path, seed, lines)})
        rng = random.Random(f"alarms:{seed}")
        passing, elsewhere = different_plates(rng, "02468"), different_plates(rng, "13579")
        messages = list(_messages(rng, islice(passing, BATCHES * BATCH)))
        rules = list(made_rules(rng, passing, range(each)))
        few_us = _record_us(compile_rules(rules, references), messages)
        rules += made_rules(rng, elsewhere, range(each, each * TIMES_MORE))
        many_us = _record_us(compile_rules(rules, references), messages)
        verdict_ms = _verdict_ms(compile_rules(rules[: each * 2], references))
        machine_mb, worker_mb = memory_of(path)
    return {COST: few_us, GROWTH: many_us / few_us, MACHINE: machine_mb, WORKER: worker_mb,
            VERDICT: verdict_ms}  # fmt: skip


def _verdict_ms(rules: RuleSet) -> float:
    """Of a candidate that the list has found, in the dispatcher's function."""
    plates = [line.plate for line in rules.references.lists["stolen"].lines(0, VERDICTS)]
    found = [
        Candidate(
            rule_id="list/stolen", rule_version=1, record_id=f"{number:032x}", kind="vehicle",
            received_at_ms=AT_MS, captured_at_ms=AT_MS, source="",
            record=msgspec.json.encode({"卡口编号": "1", "车牌号码": plate}).decode(),
        )
        for number, plate in enumerate(plates)
    ]  # fmt: skip
    begin = time.process_time()
    alarms = [verdict(rules, one, AT_MS) for one in found]
    used_s = time.process_time() - begin
    if None in alarms:
        raise OperatorError("the dispatcher's function refuses what the list has")
    return used_s / len(found) * 1e3


def _made_list(path: Path, seed: int, lines: int) -> PlateList:
    """A list of plates of all provinces, which takes look-alikes."""
    rng = random.Random(f"list:{seed}")
    drawn = (drawn_plate(rng)[0] for _ in range(lines))
    build_table((ListLine(at, plate, f"case {at % 997}") for at, plate in enumerate(drawn)), path)
    record = ListRecord(
        list_id="stolen", op="put", version=1, name="stolen", tolerance="look-alikes"
    )
    return PlateList(record, PlateTable.open(path), {}, frozenset())


def _record_us(rules: RuleSet, messages: list[StreamMessage]) -> float:
    match(rules, messages[:BATCH])  # prices are made at the first look
    gc.collect()
    gc.freeze()  # as Spark's driver and its workers do
    begin = time.process_time()
    for at in range(0, len(messages), BATCH):
        match(rules, messages[at : at + BATCH])
    used_s = time.process_time() - begin
    gc.unfreeze()
    return used_s / len(messages) * 1e6


def different_plates(rng: random.Random, ends: str) -> Iterator[str]:
    """`ends`: the last digits, by which cars that pass and others are told apart."""
    seen: set[str] = set()
    while True:
        plate = f"{_PROVINCE}{rng.choice(LETTERS)}{drawn_serial(rng)[:4]}{rng.choice(ends)}"
        if plate not in seen:
            seen.add(plate)
            yield plate


def made_rules(
    rng: random.Random, plates: Iterator[str], numbers: Iterable[int]
) -> Iterator[WatchCommand]:
    """A fuzzy plate and a wildcard for each number."""
    for number in numbers:
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
        message = message_of(read, sure) | {"卡口编号": f"33010{rng.choice(DIGITS)}"}
        yield StreamMessage(DATA_VEHICLE, 0, offset, AT_MS, msgspec.json.encode(message))
