"""The console and the dispatcher with a national watch list: 100,000 rules on the topic.

In: how often. Out: how long one operator waits for a page of rules, how long another one waits
meanwhile, and what both processes hold. Never: a part of the product replaced.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from bus.client.kafka.producer import Producer
from bus.contracts.commands import DecidedRule
from bus.contracts.topics import STATE_WATCHLIST
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.bench.targets import broker_flags, role, wait_for_port
from deploy.errors import OperatorError
from deploy.servers.process import free_port
from deploy.topics import make_topics
from monitor.accounts.one_time_links import issue_one_time_link

NAMES = ("rules-page", "rules-api", "rules-others", "rules-console", "rules-dispatcher")
RULES = 100_000
ASKED = 40  # pages of one run
LIMIT = 500  # rules of a page: the most that the API gives
WHO = "bench"
READY_S, POLL_S, FLUSH_S, BESIDE_S = 120.0, 0.5, 60.0, 0.01


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """Every run starts broker, dispatcher and console anew."""
    if not names:
        return
    runs = SampleRecorder(names, repeat, say)
    for _ in range(repeat):
        for name, value in (attempt("100,000 rules", _run, say) or {}).items():
            if name in names:
                runs.add(name, value, of="ours")
        yield from runs.samples()


def _run() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as name:
        folder, broker_port, port = Path(name), free_port(), free_port()
        flags = [*broker_flags(broker_port, free_port()), f"console.port={port}",
                 f"dispatcher.metrics_port={free_port()}"]  # fmt: skip
        with role("broker", folder, flags) as broker:
            wait_for_port(broker, broker_port, folder)
            _put_rules(f"127.0.0.1:{broker_port}")
            with (
                role("dispatcher", folder, flags) as dispatcher,
                role("console", folder, flags) as console,
            ):
                wait_for_port(console, port, folder)
                one = BenchOperator(port, folder)
                _wait_until_read(one)
                found = _answers(one, BenchOperator(port, folder))
                return found | {
                    "rules-console": psutil.Process(console.pid).memory_info().rss / 1e6,
                    "rules-dispatcher": psutil.Process(dispatcher.pid).memory_info().rss / 1e6,
                }


def _put_rules(bootstrap_servers: str) -> None:
    bus, version = BusSettings(bootstrap_servers=bootstrap_servers), now_ms()
    make_topics(bus)
    producer = Producer(bus, client_id="rules")
    for number in range(RULES):
        rule = DecidedRule(
            rule_id=f"w-{number:012x}", op="put", version=version + number, name=f"目标 {number}",
            match={"plate_number": [f"京B{number:05d}"]}, author=WHO, note="bench",
        )  # fmt: skip
        producer.send(STATE_WATCHLIST, msgspec.json.encode(rule), key=rule.rule_id)
    if producer.close(FLUSH_S):
        raise OperatorError("the rules could not be written")


class BenchOperator:
    """A person with a session, as a browser has it."""

    def __init__(self, port: int, folder: Path) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)
        link = issue_one_time_link(folder, base_url="")
        self._connection.request("GET", link)
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]

    def get(self, address: str) -> bytes:
        """The body of a page."""
        self._connection.request("GET", address, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OperatorError(f"{address}: HTTP {answer.status}: {body[:200]!r}")
        return body

    def seconds(self, address: str) -> float:
        """How long it takes."""
        began = time.perf_counter()
        self.get(address)
        return time.perf_counter() - began


def _wait_until_read(one: BenchOperator) -> None:
    deadline = time.monotonic() + READY_S
    while json.loads(one.get("/api/watch?limit=1"))["count"] < RULES:
        if time.monotonic() > deadline:
            raise OperatorError("the console has not read all rules")
        time.sleep(POLL_S)


def _answers(one: BenchOperator, other: BenchOperator) -> dict[str, float]:
    """p99 of one who leafs through the rules and opens their page, and of another one who asks for
    places meanwhile; in seconds."""
    done, waited = threading.Event(), list[float]()

    def ask() -> None:
        while not done.wait(BESIDE_S):
            waited.append(other.seconds("/api/places?limit=20"))

    beside = threading.Thread(target=ask)
    beside.start()
    try:
        api = [one.seconds(f"/api/watch?limit={LIMIT}") for _ in range(ASKED)]
        page = [one.seconds("/watch") for _ in range(ASKED)]
    finally:
        done.set()
        beside.join()
    return {"rules-api": _p99(api), "rules-page": _p99(page), "rules-others": _p99(waited)}


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]
