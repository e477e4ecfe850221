"""How long a start reads the deployment register from the bus.

In: a broker of its own with a register and as many edits as a year brings. Out: seconds until a
follower has the whole register. Never: a register from a file.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from bus.client.register_follower import RegisterFollower
from bus.client.register_writer import send_entries
from bus.contracts.register import Checkpoint, Device, District
from bus.contracts.register_entry import RegisterEntry
from bus.settings import BusSettings, SiteSettings
from deploy.bench.targets import our_broker
from deploy.errors import OperatorError
from deploy.topics import make_topics

DEVICES, PER_CHECKPOINT, DISTRICTS = 10_000, 4, 20
EDITS = 1_000
READ_TIMEOUT_S = 60.0
CLIENT_ID = "bench-register"


def measured() -> dict[str, float]:
    """From the follower's start until somebody who asks gets the register as it was edited."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as name:
        folder = Path(name)
        with our_broker(folder / "broker") as broker:
            bus = BusSettings(bootstrap_servers=broker.bootstrap)
            make_topics(bus)
            for entries in (_register(), _edits()):
                send_entries(
                    SiteSettings(), bus, entries, "bench", CLIENT_ID, lambda _, at_ms: at_ms
                )
            began = time.monotonic()
            follower = RegisterFollower(bus, folder / "none.json", CLIENT_ID).start()
            try:
                if not follower.wait_until_read(READ_TIMEOUT_S):
                    raise OperatorError(f"the register was not read in {READ_TIMEOUT_S:g} s")
                devices = len(follower.read().devices)
                took_s = time.monotonic() - began
            finally:
                follower.close()
    if devices != DEVICES:
        raise OperatorError(f"{devices} of {DEVICES} devices were read")
    return {"ingest-register": took_s}


def _register() -> list[RegisterEntry]:
    districts = [
        RegisterEntry(
            kind="district", id=f"d{number}",
            district=District(district_id=f"d{number}", name=f"{number}区", name_en=f"D{number}"),
        )
        for number in range(DISTRICTS)
    ]  # fmt: skip
    checkpoints = [
        RegisterEntry(kind="checkpoint", id=f"c{number}", checkpoint=_checkpoint(number, "东路"))
        for number in range(DEVICES // PER_CHECKPOINT)
    ]
    devices = [
        RegisterEntry(
            kind="device", id=_address(number),
            device=Device(
                camera_ip=_address(number), checkpoint_id=f"c{number // PER_CHECKPOINT}",
                kind="vehicle",
            ),
        )
        for number in range(DEVICES)
    ]  # fmt: skip
    return [*districts, *checkpoints, *devices]


def _edits() -> list[RegisterEntry]:
    """Checkpoints that get another name, one after the other."""
    rng = random.Random(1)
    numbers = [rng.randrange(DEVICES // PER_CHECKPOINT) for _ in range(EDITS)]
    return [
        RegisterEntry(
            kind="checkpoint", id=f"c{number}", checkpoint=_checkpoint(number, f"西路{edit}")
        )
        for edit, number in enumerate(numbers)
    ]


def _checkpoint(number: int, road: str) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=f"c{number}", name=f"{road}{number}号", name_en=f"Road {number}",
        district_id=f"d{number % DISTRICTS}", latitude=31.0 + number / 1e4, longitude=121.0,
    )  # fmt: skip


def _address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
