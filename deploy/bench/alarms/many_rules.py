"""How late an alarm is on `event.alarm` while ten thousand rules are in force, everything running.

In: an arrangement, a rate. Out: seconds from capture until the alarm is seen on its topic, p50 and
p99, and how many records a second were stored meanwhile. Half of the rules are for misread plates,
half have wildcards; devices of the bench send, and one rule more finds a car of theirs. Never: a
rule that counts before the decider has said that it is in force.
"""

from __future__ import annotations

import random
from concurrent.futures import Future
from contextlib import closing
from itertools import islice

import msgspec

from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.commands import CommandAnswer
from bus.settings import BusSettings
from deploy.bench.alarms.matching_cost import different_plates, made_rules
from deploy.bench.ingest.latencies import (
    FIRST_S,
    MEASURED_S,
    WARM_UP_S,
    Delays,
    MeasuredWindow,
    Watch,
    watched,
)
from deploy.bench.ingest.product import Arrangement
from deploy.errors import OperatorError

ONE_P50, ONE_P99 = "alarms-rules-p50", "alarms-rules-p99"
CITY_P50, CITY_P99 = "alarms-rules-city-p50", "alarms-rules-city-p99"
CITY_RATE = "alarms-rules-city-rate"
ONE_NAMES, CITY_NAMES = (ONE_P50, ONE_P99), (CITY_P50, CITY_P99, CITY_RATE)
PAIRS = 5_000
"""A fuzzy plate and a wildcard each: ten thousand rules."""
RATE, RATE_OF_CITY = 1_000, 210
AT_ONCE = 500
DECIDED_S = 60.0
SEED = 30


def of_one_machine() -> dict[str, float]:
    """All embedded."""
    delays, window = _measured(Arrangement.A, RATE, WARM_UP_S)
    return {ONE_P50: delays.raised_s(window, 50), ONE_P99: delays.raised_s(window, 99)}


def of_a_city() -> dict[str, float]:
    """Two executors, HBase, three brokers."""
    delays, window = _measured(Arrangement.B, RATE_OF_CITY, FIRST_S)
    stored = sum(window.holds(captured_ms) for captured_ms, _ in delays.stored)
    return {
        CITY_P50: delays.raised_s(window, 50),
        CITY_P99: delays.raised_s(window, 99),
        CITY_RATE: stored / MEASURED_S,
    }


def _measured(
    arrangement: Arrangement, rate: float, warm_up_s: int
) -> tuple[Delays, MeasuredWindow]:
    with watched(arrangement) as watch:
        put_rules(watch, PAIRS)
        window = watch.window(rate, warm_up_s)
        return watch.delays(), window


def put_rules(watch: Watch, pairs: int) -> None:
    """All in force when this returns. Raises OperatorError where one is refused."""
    rng = random.Random(SEED)
    rules = made_rules(rng, different_plates(rng, "0123456789"), range(pairs))
    bus = BusSettings(bootstrap_servers=watch.product.bootstrap)
    with closing(CommandClient(bus, "main", "bench")) as client:
        while some := list(islice(rules, AT_ONCE)):
            waiting: list[Future[CommandAnswer]] = [
                client.begin(
                    msgspec.structs.replace(
                        one, name=one.rule_id, account="bench", command_id=new_command_id()
                    )
                )
                for one in some
            ]
            for answer in (one.result(DECIDED_S) for one in waiting):
                if answer.state != "accepted":
                    raise OperatorError(f"a rule is refused: {answer.text}")
