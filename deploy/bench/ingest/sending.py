"""The devices that send while something is measured, and the rule that finds some of their records.

In: where the bus is, a rate. Out: a process, and what it says at its end. Never: the simulated
city, whose records are made to be counted and not to be timed.
"""

from __future__ import annotations

import json
import subprocess
import sys

from bus.contracts.commands import WatchCommand
from bus.settings import SiteSettings
from deploy.bench.ingest.devices import WANTED_PLATE
from deploy.bench.ingest.product import Product
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from ingest.senders.simulator.settings import CitySettings
from ingest.senders.simulator.watched_cars import WatchedCars
from ingest.senders.simulator.world import build_world

NO_CITY_RULES = "city.watches=false"
HIT_EVERY = 50  # records: one of the wanted car
ANSWER_TIMEOUT_S = 600.0
TAKEN_SHARE = 0.98
"""Of what was to be sent: a bus that takes less is measured at another rate."""


def want_plate(product: Product) -> None:
    """From now on the wanted car is looked for."""
    product.databus(
        "watch", "add", "--id", "bench", "--match", f"plate_number={WANTED_PLATE}", "--quiet", "0"
    )


def want_cars(product: Product) -> None:
    """From now on a plate is looked for, and one on a car of another colour and brand: those of two
    cars of the backlog's city."""
    world = build_world(CitySettings().seed, SiteSettings().name)
    for rule in WatchedCars(world).rules[:2]:
        command = rule.command(0)
        assert isinstance(command, WatchCommand)
        asked = [f"{name}={value}" for name, some in command.match.items() for value in some]
        words = [f"--match={one}" for one in asked]
        product.databus("watch", "add", "--id", rule.rule_id, *words)


def start_devices(
    bootstrap: str, *, rate: float, seconds: float, hit_every: int
) -> subprocess.Popen[str]:
    """Begin to send; one of so many records is of the wanted car."""
    return subprocess.Popen(
        [sys.executable, "-m", "deploy.bench.ingest.devices", "--bootstrap", bootstrap,
         "--rate", str(rate), "--seconds", str(seconds), "--hit-every", str(hit_every)],
        cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer_of(
    process: subprocess.Popen[str], timeout_s: float = ANSWER_TIMEOUT_S
) -> dict[str, int]:
    """How many were `sent`, and how many of them `unconfirmed`, at the end."""
    output, errors = process.communicate(timeout=timeout_s)
    if process.returncode != 0:
        raise OperatorError(f"the devices failed: {errors[-400:]}")
    answer: dict[str, int] = json.loads(output.splitlines()[-1])
    return answer


def answer_of_load(process: subprocess.Popen[str], rate: float, seconds: float) -> dict[str, int]:
    """The same, of devices that were to send at a rate. Raises OperatorError if the bus has not
    taken it all; the last record may not have been due."""
    answer = answer_of(process)
    if answer["unconfirmed"] or answer["sent"] + 1 < TAKEN_SHARE * rate * seconds:
        raise OperatorError(f"the bus did not take the load: {answer}")
    return answer
