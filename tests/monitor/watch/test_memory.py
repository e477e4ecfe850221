"""The watch stays within sixty-six megabytes: beside a store with ten thousand devices, and with the
habits of them all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.notify.notice_plan import NoticePlan
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.process import free_port
from ingest.store.open import open_store
from ingest.store.port import StoreBatch
from monitor.settings import WatchSettings
from monitor.watch.habits import Habit
from monitor.watch.incident_file import IncidentFile
from monitor.watch.probes import MINUTES_BACK, SETTLE_MS
from monitor.watch.senders import SavedHabit
from monitor.watch.watch_clock import HOUR_CLASSES
from tests.ingest.store.made import quality

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DEVICES = 10_000
LIMIT_KB = 66 * 1024  # 62.5 to 65.0 MiB on busy machines: codecs of our own client, the store, the habits, the lists
READY_S = 90.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def addresses() -> list[str]:
    return [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(DEVICES)]


def fill(folder: Path) -> None:
    """Every device in every minute that the watch asks for."""
    begin_ms = (now_ms() - SETTLE_MS) // 60_000 * 60_000
    minutes = [begin_ms - 60_000 * n for n in range(-1, MINUTES_BACK + 1)]
    store = open_store(f"sqlite://{folder}/store/records.db", "write")
    for minute_ms in minutes:
        cells = [
            quality(camera_ip=one, minute_ms=minute_ms, sent=9, arrived=9, valid=9, accepted=9)
            for one in addresses()
        ]
        store.apply(StoreBatch(quality=cells), [])
    store.close()


def save_habits(path: Path, known: int) -> None:
    """As a watch that ran for weeks has left them."""
    habit = Habit()
    for hour in range(HOUR_CLASSES):
        habit.learn_hour(hour, 60)
    body, file = habit.to_bytes(), IncidentFile(path, NoticePlan())
    file.save([SavedHabit("device", one, "10.9.9.9", body) for one in addresses()[:known]], [], 1)
    file.close()


def send(bus: BusSettings, devices: list[str]) -> None:
    """One record of each."""
    producer = Producer(bus, client_id="test")
    for one in devices:
        body = {"抓拍设备地址": one, "后端图片识别服务器地址": "10.9.9.9", "卡口编号": "c"}
        producer.send(DATA_VEHICLE, json.dumps(body, ensure_ascii=False).encode(), key=one)
    assert producer.close() == 0


def page(port: int) -> str:
    """Empty while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as found:
            return str(found.read().decode())
    except OSError:
        return ""


class RunningWatch:
    """One process."""

    def __init__(self, bus: BusSettings, folder: Path) -> None:
        self.port, self._log_path = free_port(), folder / "watch.log"
        settings = {
            "site.data_dir": folder, "bus.bootstrap_servers": bus.bootstrap_servers,
            "watch.metrics_port": self.port,
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy", *words, "run", "watch"], cwd=PROJECT_ROOT,
            stdout=subprocess.DEVNULL, stderr=self._log_path.open("wb"),
        )  # fmt: skip

    def until(self, pattern: str, wanted: set[str]) -> None:
        """What the page shows."""
        deadline = time.monotonic() + READY_S
        while not wanted <= (found := set(re.findall(pattern, page(self.port)))):
            assert time.monotonic() < deadline, (found, self._log_path.read_text())
            time.sleep(0.2)

    def peak_kb_at_its_end(self) -> int:
        """Ask it to stop; it saves what it has learnt. Read from its own page of the kernel: what
        `wait4` tells counts the process that began it as well."""
        peak_kb = self.peak_kb()
        self.process.terminate()
        while self.process.poll() is None:
            peak_kb = max(peak_kb, self.peak_kb())
            time.sleep(0.005)
        assert self.process.returncode == 0, self._log_path.read_text()
        return peak_kb

    def peak_kb(self) -> int:
        """So far; 0 when it is gone."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return max((int(one) for one in re.findall(r"VmHWM:\s+(\d+) kB", status)), default=0)


@pytest.fixture
def bus(broker: RunningBroker) -> BusSettings:
    settings = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(settings, client_id="test")
    admin.ensure_topics(TOPICS.values())
    admin.close()
    return settings


ANSWERED = r'databus_watch_answered_timestamp_seconds{probe="([^"]+)"}'


def test_a_store_and_the_habits_of_ten_thousand_devices_fit_into_sixty_six_megabytes(
    bus: BusSettings, tmp_path: Path
) -> None:
    """Each minute it held a hundred thousand cells of the store at once, and at each save the bodies
    of all habits. Over its whole life: nine tenths are known from before, one comes, all are saved."""
    folder, known = tmp_path / "var", DEVICES * 9 // 10
    fill(folder)
    settings = WatchSettings()
    save_habits(settings.file_path(SiteSettings(data_dir=str(folder))), known)
    watch = RunningWatch(bus, folder)
    try:
        watch.until(ANSWERED, {"minutes", "offsets", "store"})
        send(bus, addresses())
        watch.until(r"databus_watch_senders (\S+)", {str(float(DEVICES + 2))})  # server and site too
        peak_kb = watch.peak_kb_at_its_end()
        print("peak, KB:", peak_kb)
        assert peak_kb <= LIMIT_KB
    finally:
        if watch.process.returncode is None:
            watch.process.kill()
            watch.process.wait()
