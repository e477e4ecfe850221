"""How soon a file of a million plates is in force, and one line that changes of it.

In: nothing. Out: seconds from the start of `./databus lists import` until a reader on the machine
has the list, of a sound file and of one of which every other line is wrong (this until its report
stands there, too); records and bytes on the topic; seconds from a request until a reader has the
line. Never: a part of the product replaced: broker and dispatcher are the product's own.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from alarm.lists.importer import ListImporter
from alarm.lists.reader import ListReader
from bus.client.kafka.consumer import Consumer
from bus.client.model import TopicPartition
from bus.contracts.plate_lists import ListCommand, ListLine, is_chunk_key
from bus.contracts.topics import STATE_LISTS
from bus.domain.plates import PROVINCES
from bus.settings import BusSettings
from deploy.bench.targets import broker_flags, role, wait_for_port
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.servers.process import free_port
from deploy.topics import make_topics

IMPORT, BROKEN = "alarms-list-import", "alarms-list-broken"
RECORDS, BYTES, CHANGE = "alarms-list-records", "alarms-list-mb", "alarms-list-line"
NAMES = (IMPORT, BROKEN, RECORDS, BYTES, CHANGE)
LINES = 1_000_000
CHANGES = 20
READY_S, POLL_S = 60.0, 0.2
_SIGNS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
_NOTES = ("被盗", "未投保", "在逃", "逾期未检验", "套牌嫌疑")
_WRONG = ("张三", "13812345678", "浙A123", "浙A1?345", "")


def list_figures(seed: int, lines: int = LINES) -> dict[str, float]:
    """One run of all of them, with a broker and a dispatcher of its own."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        flags = [*broker_flags(port, free_port()), f"dispatcher.metrics_port={free_port()}"]
        bus = BusSettings(bootstrap_servers=f"127.0.0.1:{port}")
        sound, broken = folder / "sound.csv", folder / "broken.csv"
        _write_file(sound, lines, random.Random(seed))
        _write_file(broken, lines, random.Random(seed), wrong_every=2)
        with role("broker", folder, flags) as broker:
            wait_for_port(broker, port, folder)
            make_topics(bus)
            with role("dispatcher", folder, flags), _reader(bus, folder) as reader:
                _import(folder, port, broken, "warm", head=1_000)  # until somebody decides
                found = {IMPORT: _seconds_to(reader, folder, port, sound, "sound")}
                found |= _size_on_topic(bus, "sound")
                found[CHANGE] = _seconds_to_line(reader, bus)
                found[BROKEN] = _seconds_to(reader, folder, port, broken, "broken")
    return found


def _reader(bus: BusSettings, folder: Path) -> closing[ListReader]:
    return closing(ListReader(bus, "bench", folder / "lists"))


def _seconds_to(reader: ListReader, folder: Path, port: int, file: Path, list_id: str) -> float:
    """Until the reader has the list."""
    begin_s = time.monotonic()
    _import(folder, port, file, list_id)
    if list_id not in reader.catch_up():
        raise OperatorError(f"{list_id} is not read: {reader.problems}")
    return time.monotonic() - begin_s


def _import(folder: Path, port: int, file: Path, list_id: str, head: int = 0) -> None:
    """As a person does it; `head`: only so many lines, tried until they are decided on."""
    if head:
        short = folder / "short.csv"
        with file.open(encoding="utf-8") as lines:
            short.write_text("".join(next(lines) for _ in range(head)), "utf-8")
        file = short
    words = [
        sys.executable, "-m", "deploy", "--set", f"bus.bootstrap_servers=127.0.0.1:{port}",
        "--set", f"site.data_dir={folder}", "lists", "import", str(file), "--list", list_id,
    ]  # fmt: skip
    deadline = time.monotonic() + READY_S
    while True:
        done = subprocess.run(words, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if not head or time.monotonic() > deadline:
            raise OperatorError(f"lists import: {done.stderr}{done.stdout}")
        time.sleep(POLL_S)


def _seconds_to_line(reader: ListReader, bus: BusSettings) -> float:
    """The median of some changes, each from its request until the reader has the line."""
    found: list[float] = []
    with closing(ListImporter(bus, "main", "bench")) as importer:
        for number in range(CHANGES + 1):
            line = ListLine(0, f"使{number:06d}")
            command = ListCommand(list_id="sound", op="change", put_lines=(line,))
            begin_s = time.monotonic()
            answer = importer.request(command)
            if reader.catch_up()["sound"].find(line.plate) is None or answer.state != "accepted":
                raise OperatorError(f"the line is not in force: {answer.text}")
            found.append(time.monotonic() - begin_s)
    return sorted(found[1:])[CHANGES // 2]  # the first one connects


def _size_on_topic(bus: BusSettings, list_id: str) -> dict[str, float]:
    count = size = 0
    with Consumer(bus, client_id="bench-size") as consumer:
        consumer.assign({TopicPartition(STATE_LISTS, 0): 0})
        while not consumer.at_end:
            for one in consumer.poll(1_000, POLL_S):
                key = (one.key or b"").decode()
                if key == list_id or (is_chunk_key(key) and key.startswith(f"{list_id}/")):
                    count += 1
                    size += len(one.key or b"") + len(one.value or b"")
    return {RECORDS: count, BYTES: size / 1e6}


def _write_file(path: Path, lines: int, rng: random.Random, wrong_every: int = 0) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("序号,号牌号码,备注,登记日期\n")
        for number, plate in enumerate(_plates(lines, rng)):
            is_wrong = wrong_every and number % wrong_every
            written = rng.choice(_WRONG) if is_wrong else plate
            day = f"2026-{rng.randint(1, 11):02d}-{rng.randint(1, 28):02d}"
            file.write(f"{number + 1},{written},{rng.choice(_NOTES)},{day}\n")


def _plates(count: int, rng: random.Random) -> Iterator[str]:
    """No plate twice."""
    seen: set[str] = set()
    signs: Sequence[str] = _SIGNS
    while len(seen) < count:
        serial = "".join(rng.choices(signs, k=5))
        plate = f"{rng.choice(PROVINCES)}{rng.choice('ABCDEFGHJK')}{serial}"
        if plate not in seen:
            seen.add(plate)
            yield plate
