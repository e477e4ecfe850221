"""What the watch asks, of whom, and what each answer is for the judge.

In: brokers, stores, edges, pages, processes, disks. Out: `WatchJudge.on_…`, with the age that an
answer has. Never: a question that waits for another one; a decision of what is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from bus.client.model import TopicAndPartition
from bus.client.wire.ports import Address
from bus.contracts.groups import application_group
from bus.runtime import wall_clock
from bus.runtime.tasks import spawn
from bus.settings import BusSettings
from ingest.store.port import Position
from ingest.store.positions import valid_positions
from monitor.ports import ProcessStatus
from monitor.settings import WatchSettings
from monitor.watch.judge import EDGE, UsedSpace, WatchJudge, positions_of
from monitor.watch.metrics import WatchMetrics
from monitor.watch.ports import WatchPorts
from monitor.watch.probe import Answer, Probe
from monitor.watch.progress import StageOffsets
from monitor.watch.questions import (
    MAX_BROKERS,
    BrokerQuestion,
    BusOffsets,
    EdgeSpool,
    MinutesQuestion,
    OffsetsQuestion,
    SettledMinutes,
    StoreQuestion,
    ask_mirror,
    ask_spool,
    bootstrap_addresses,
    fetch,
    used_space,
    with_suspended,
)

log = logging.getLogger(__name__)

LOG_EVERY_S = 60.0  # a question without an answer is logged so often
FRESH_S = 15.0  # positions older than this are not compared with the ends of now
CERTIFICATES_S = 60.0
LISTS_S = 10.0  # a list is renewed once a day or a week; an answer counts for half a minute
SITE_KEYS_S = 10.0  # two hundred keys of a broker; an operator waits minutes, not seconds
MINUTES_S = 60.0
MINUTES_TIMEOUT_S = 30.0  # ten thousand cells out of a store that is busy
SETTLE_MS = 120_000  # a minute is judged when its records can be expected to be stored
MINUTES_BACK = 10


class WatchProbes:
    """All probes of one watch. Invariant: each broker that was named has one, `MAX_BROKERS` at
    most."""

    def __init__(
        self,
        bus: BusSettings,
        settings: WatchSettings,
        ports: WatchPorts,
        judge: WatchJudge,
        metrics: WatchMetrics,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._ports = ports
        self._judge = judge
        self._metrics = metrics
        self._brokers: dict[Address, bool] = {}  # whether each answers
        self._positions: dict[str, tuple[float, list[Position]]] = {}
        self._logged_s: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._closers: list[Callable[[], None]] = []

    @property
    def is_bus_there(self) -> bool:
        """Whether a broker answers."""
        return any(self._brokers.values())

    async def close(self) -> None:
        """Ask no more, and leave."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for close in self._closers:
            await asyncio.to_thread(close)

    def start(self) -> None:
        """Ask everything from now on, each question in its own time."""
        ports, settings = self._ports, self._settings
        for address in bootstrap_addresses(self._bus):
            self._watch_broker(address)
        for name, url in settings.health.items():
            self._probe_address(name, partial(fetch, url, settings.probe_timeout_s))
        applications = [one.stage for one in ports.stages]
        records = StoreQuestion(ports.open_records, applications)
        alarms = StoreQuestion(ports.open_alarms, [ports.recorder.stage])
        self._probe_part("store", records.ask, self._on_positions)
        self._probe_part("operations", alarms.ask, self._on_positions)
        topics = {topic for one in ports.all_stages for topic in one.topics}
        groups = [application_group(one.stage) for one in (*ports.stages, *ports.groups)]
        offsets = OffsetsQuestion(self._bus, topics, groups, settings.probe_timeout_s)
        self._closers.append(offsets.close)
        self._probe("offsets", offsets.ask, self._on_offsets)
        self._probe(
            "site keys", offsets.ask_site_keys, self._judge.on_site_keys, interval_s=SITE_KEYS_S
        )
        self._probe("processes", self._ask_processes, self._on_processes)
        self._closers.append(ports.lists.close)
        self._probe("lists", ports.lists.read, self._judge.on_lists, interval_s=LISTS_S)
        self._probe(
            "certificates", ports.read_certificates, self._judge.on_certificates,
            interval_s=CERTIFICATES_S,
        )  # fmt: skip
        self._probe("space", partial(used_space, ports.folders), self._judge.on_space)
        for name, url in ports.edge_status_urls.items():
            token = settings.edge_token or ports.page_token
            ask_edge = partial(ask_spool, url, settings.probe_timeout_s, token)
            self._probe(f"spool {name}", ask_edge, partial(self._on_spool, name))
        if ports.mirror_url:
            ask = partial(
                ask_mirror, ports.mirror_url, settings.probe_timeout_s, ports.page_token
            )
            self._probe_part("mirror", ask, self._judge.on_mirror)
        self._probe_minutes()

    def _probe_minutes(self) -> None:
        minutes = MinutesQuestion(
            self._ports.open_records, wall_clock.now_ms, settle_ms=SETTLE_MS, minutes=MINUTES_BACK
        )
        probe = Probe(
            "minutes", minutes.ask, self._on_minutes,
            partial(self._unanswered, "minutes"),
            interval_s=MINUTES_S, timeout_s=MINUTES_TIMEOUT_S,
        )  # fmt: skip
        self._spawn("probe minutes", probe.run)

    def _watch_broker(self, address: Address) -> None:
        if address in self._brokers or len(self._brokers) >= MAX_BROKERS:
            return
        self._brokers[address] = False
        name = f"broker {address.host}:{address.port}"
        question = BrokerQuestion(self._bus, address, self._settings.probe_timeout_s)
        answers = self._brokers

        def on_answer(_: object) -> None:
            answers[address] = True

        def on_fault(_: str) -> None:
            answers[address] = False

        self._probe_part(name, question.ask, on_answer, on_fault)

    def _probe_part(
        self,
        name: str,
        ask: Callable[[], Answer],
        on_answer: Callable[[Answer], None],
        on_fault: Callable[[str], None] = lambda _: None,
    ) -> None:
        """A part that is away while it does not answer."""

        def answered(answer: Answer) -> None:
            on_answer(answer)
            self._judge.on_parts(name, {name: ""})

        def failed(why: str) -> None:
            on_fault(why)
            self._judge.on_parts(name, {name: why})

        self._probe(name, ask, answered, failed)

    def _probe_address(self, name: str, ask: Callable[[], object]) -> None:
        """A part that is away while it does not answer; of drivers, the judge knows which."""
        if name not in self._judge.pages:
            self._probe_part(name, ask, lambda _: None)
            return
        judge = self._judge
        self._probe(name, ask, lambda _: judge.on_page(name, ""), partial(judge.on_page, name))

    def _probe(
        self,
        name: str,
        ask: Callable[[], Answer],
        on_answer: Callable[[Answer], None],
        on_fault: Callable[[str], None] | None = None,
        interval_s: float = 0.0,
    ) -> None:
        def answered(answer: Answer) -> None:
            self._metrics.answered(name)
            on_answer(answer)

        probe = Probe(
            name, ask, answered, on_fault or partial(self._unanswered, name),
            interval_s=interval_s or self._settings.probe_interval_s,
            timeout_s=self._settings.probe_timeout_s,
        )
        self._spawn(f"probe {name}", probe.run)

    def _spawn(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(spawn(run(), name=name))

    # -- answers -----------------------------------------------------------------------------

    def _on_positions(self, found: dict[str, list[Position]]) -> None:
        now_s = time.monotonic()
        self._positions |= {name: (now_s, positions) for name, positions in found.items()}

    def _on_offsets(self, found: BusOffsets) -> None:
        for address in found.brokers:
            self._watch_broker(address)
        for stage in self._ports.all_stages:
            positions = self._stage_positions(stage.stage, found)
            wanted = set(stage.topics)
            self._judge.on_stage(
                StageOffsets(
                    stage=stage.stage,
                    positions=positions_of(stage.topics, positions),
                    ends={tp: end for tp, end in found.ends.items() if tp[0] in wanted},
                    starts={tp: start for tp, start in found.starts.items() if tp[0] in wanted},
                )
            )

    def _stage_positions(
        self, stage: str, found: BusOffsets
    ) -> dict[TopicAndPartition, int] | None:
        """What its group has committed, else what its store says; None while that is away. Nothing
        of it is valid where the topics were made anew: then it has read nothing of them."""
        committed = found.committed.get(application_group(stage))
        if committed is not None:
            return dict(committed)
        at_s, positions = self._positions.get(stage, (-FRESH_S, []))
        if time.monotonic() - at_s > FRESH_S or not positions:
            return None
        return valid_positions(positions, found.cluster)

    def _on_minutes(self, found: SettledMinutes) -> None:
        self._metrics.answered("minutes")
        self._judge.on_minutes(found.totals)
        self._judge.on_missing(found.missing)

    def _ask_processes(self) -> list[ProcessStatus]:
        return with_suspended(self._ports.read_processes())

    def _on_processes(self, found: list[ProcessStatus]) -> None:
        self._judge.on_processes(found)

    def _on_spool(self, edge: str, found: EdgeSpool) -> None:
        place = ("spool", 0)
        self._judge.on_stage(
            StageOffsets(edge, {place: found.drained}, {place: found.spooled}, {place: 0})
        )
        name = "spool" if edge == EDGE else f"spool {edge}"
        self._judge.on_spool(
            UsedSpace(name, found.spool_bytes, self._ports.spool_max_bytes, is_spool=True)
        )
        if found.second_site is not None:
            self._judge.on_uncovered(edge, found.second_site.uncovered_records)
        self._judge.on_refused(edge, found.refused.groups)

    def _unanswered(self, name: str, why: str) -> None:
        """No part by itself: what depends on the answer is not judged. Logged once a minute."""
        now_s = time.monotonic()
        if now_s - self._logged_s.get(name, -LOG_EVERY_S) >= LOG_EVERY_S:
            self._logged_s[name] = now_s
            log.info("%s could not be asked: %s", name, why)
