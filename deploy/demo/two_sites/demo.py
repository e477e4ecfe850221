"""`demo --sites 2`: a city feeds site A, A is lost or handed over, B goes on, and the account.

In: settings, how long, whether it is planned. Out: exit status 0 only if every record that was
acknowledged to a camera is at B, or the report of the switch says that it is missing. Never: a way
of its own to switch: it runs `databus mirror switch` as an operator does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bus.contracts.mirror_status import MirrorStatus
from bus.contracts.site_epoch import parse_site_epoch
from bus.domain.kinds import KIND_OF_TOPIC
from bus.runtime.wall_clock import now_ms
from bus.security.page_token import bearer_headers
from deploy.demo.one_site import DRAIN_IDLE_S, alarm_count, stored_count
from deploy.demo.two_sites import report
from deploy.demo.two_sites.balance import reconcile_sites
from deploy.demo.two_sites.closed import close_pair
from deploy.demo.two_sites.collect import read_records
from deploy.demo.two_sites.first_stored import AcknowledgedEnds, StoredPositions
from deploy.demo.two_sites.layout import (
    BROKERS,
    SitePlan,
    TwoSitesPlan,
    two_sites,
    with_edge_of,
)
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.reconcile.drain import drain
from deploy.reconcile.report import print_reconciliation
from deploy.roles.prepare import prepare
from deploy.settings.composed import Settings
from deploy.supervisor.status_line import StatusLine
from deploy.supervisor.supervise import check_not_running, describe, stop_on_signals
from deploy.supervisor.supervisor import Supervisor
from dr_mirror.status.status_file import StatusUnavailable, read_status, status_path
from ingest.store.port import StoreError

TIME_S = 120.0
TICK_S = 0.5
SWITCH_AT = 0.4
"""Of the time: the rest shows that B goes on."""
READY_TIMEOUT_S = 900.0  # two Sparks, each after the other's minutes, on a busy machine
COPYING_TIMEOUT_S = 120.0
MOVE_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 120.0
POLL_S = 2.0
"""A's ends are looked at for so long before the switch, so that the last growth is seen."""
MAX_OFFSET = 1 << 62


async def demo_sites(
    settings: Settings, seconds: float, first_port: int, *, planned: bool, is_closed: bool,
    as_json: bool,
) -> int:
    """Run both sites for a time, switch in the middle, account at B. `is_closed`: with logins,
    rights and TLS at both."""
    prepare(settings)
    if is_closed:
        close_pair(settings.site.data_path, settings.mirror, BROKERS)
    plan = two_sites(settings, first_port, is_closed=is_closed)
    run = TwoSitesRun(plan, settings.site.data_path, seconds, planned=planned)
    stop_on_signals(run.asked, run.hurry)
    try:
        await run.start()
        await run.run()
        return await run.reconcile(as_json=as_json)
    except OperatorError as error:
        run.line.say(str(error))
        return 1
    finally:
        run.line.say("stopping")
        await run.stop()


class TwoSitesRun:
    """One run. Invariant: what is killed is what it started."""

    def __init__(
        self, plan: TwoSitesPlan, folder: Path, seconds: float, *, planned: bool
    ) -> None:
        self.line = StatusLine()
        self.asked, self.hurry = asyncio.Event(), asyncio.Event()
        self._plan = plan
        self._seconds = seconds
        self._planned = planned
        self._switch: dict[str, Any] = {}
        self._b_before_switch = 0
        self._positions = StoredPositions(self._plan.b.settings)
        self._acknowledged = AcknowledgedEnds(self._plan.a.settings, list(KIND_OF_TOPIC))
        self._lost_at_ms = -1
        self._a = Supervisor(self._plan.a.processes, folder / "a")
        self._b = Supervisor(self._plan.b.processes, folder / "b")
        self._cameras = Supervisor(self._plan.camera_processes, folder / "cameras")
        for name, processes in (("a", self._plan.a.processes), ("b", self._plan.b.processes),
                                ("cameras", self._plan.camera_processes)):  # fmt: skip
            check_not_running(folder / name, processes)

    async def start(self) -> None:
        """Both sites, then the cameras; returns when the mirror copies."""
        began_s = time.monotonic()
        await asyncio.to_thread(self._install_register)
        await self._a.start()
        await self._b.start()
        await self._until(lambda: self._a.all_ready and self._b.all_ready, READY_TIMEOUT_S,
                          lambda: f"A: {describe(self._a)} · B: {describe(self._b)}")  # fmt: skip
        await self._cameras.start()
        await self._until(lambda: self._cameras.all_ready and self._is_copying(),
                          COPYING_TIMEOUT_S, lambda: "the mirror begins to copy")  # fmt: skip
        self.line.say(f"both sites run after {time.monotonic() - began_s:.0f} s")

    def _install_register(self) -> None:
        """The file of the city's places at each site, as whoever installs a site does: rules that
        name places find nothing without it."""
        from ingest.senders.simulator.simulator import write_register
        from ingest.senders.simulator.world import build_world

        cameras = self._plan.cameras
        world = build_world(cameras.city.seed, cameras.site.name)
        for site in (self._plan.a, self._plan.b):
            write_register(site.settings.site.data_path / "register.json", world)

    async def stop(self) -> None:
        """Everything, the cameras first."""
        for supervisor in (self._cameras, self._b, self._a):
            await supervisor.stop()

    async def run(self) -> None:
        """The time of the demo, with the switch in the middle."""
        begun_s = time.monotonic()
        await self._pass(begun_s, begun_s + SWITCH_AT * self._seconds)
        if self.asked.is_set():
            return
        self._b_before_switch = stored_count(self._plan.b.settings) or 0
        self._positions.start()
        self._acknowledged.start()
        await asyncio.sleep(POLL_S)
        if not self._planned:
            self._lost_at_ms = now_ms()
            self._a.kill_all()
            self.line.say("site A is dead: kill -9 of all its brokers and applications")
        self._switch = await self._command(self._switch_words())
        await asyncio.to_thread(self._acknowledged.stop)
        took_ms = self._switch.get("took_ms", -1)
        self.line.say(f"B is the primary; from the site epoch to the opening: {took_ms} ms")
        await self._until(self._has_moved, MOVE_TIMEOUT_S, lambda: "the edge moves to B")
        self.line.say("the edge sends to B")
        await self._pass(begun_s, begun_s + self._seconds)

    async def reconcile(self, *, as_json: bool) -> int:
        """The city stops, what is on its way arrives at B; every record is there or is missed."""
        if not self._switch:
            self.line.say("no account: the switch was not reached")
            return 1
        self.asked.set()
        self.line.say("the city stops; what is on its way arrives (Ctrl-C: do not wait for it)")
        await self._cameras.stop_role("city")
        at_b = with_edge_of(self._plan.b.settings, self._plan.cameras)
        self._positions.stop()
        await drain(at_b, DRAIN_IDLE_S, self.line.show, self.hurry)
        output = await self._command(["mirror", "report", "--json"])
        try:
            records, of_b = await asyncio.to_thread(
                read_records, self._plan.a.settings, at_b, self._plan.cameras,
                self._b_before_switch, output, self._first_stored_ms(), self._lost_at_ms,
            )  # fmt: skip
        except StoreError as error:
            self.line.say(f"no account: {error}")
            return 1
        account = reconcile_sites(records, of_b.faults, planned=self._planned)
        if not as_json:
            print_reconciliation(of_b, as_json=False)
        report.show(account, of_b, self._plan.b.settings.site.language, as_json=as_json)
        return 0 if account.balanced else 1

    def _first_stored_ms(self) -> int | None:
        """From the last record that A acknowledged; where none was seen, from A's end."""
        own = {(one["topic"], one["partition"]): one["end"] for one in self._switch["partitions"]}
        at_a = own if self._planned else dict.fromkeys(own, MAX_OFFSET)
        ended_ms = self._acknowledged.last_ms(at_a)
        if ended_ms is None:
            ended_ms = self._lost_at_ms
        if ended_ms < 0:
            ended_ms = parse_site_epoch(self._switch["epoch"]).at_ms
        return self._positions.first_beyond(own, ended_ms)

    # -- the switch -------------------------------------------------------------------------

    def _switch_words(self) -> list[str]:
        words = ["mirror", "switch", "--to", "B", "--json"]
        return words if self._planned else [*words, "--force"]

    async def _command(self, words: list[str]) -> dict[str, object]:
        """A command of B as an operator gives it, to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "deploy", *self._plan.b.settings.arguments, *words,
            cwd=PROJECT_ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), COMMAND_TIMEOUT_S)
        if process.returncode:
            raise OperatorError(f"databus {' '.join(words)}: {(err or out).decode()[-600:]}")
        found: dict[str, Any] = json.loads(out)
        return found

    # -- how it stands ----------------------------------------------------------------------

    async def _pass(self, begun_s: float, until_s: float) -> None:
        while time.monotonic() < until_s and not self.asked.is_set():
            self.line.show(self._how_it_stands(time.monotonic() - begun_s))
            for name in (*self._b.failed, *self._cameras.failed):
                raise OperatorError(f"{name} died too often; its log says why")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.asked.wait(), TICK_S)

    def _how_it_stands(self, passed_s: float) -> str:
        status = self._mirror_status()
        lag = "" if status is None else f" · RPO {status.rpo_s:.1f} s"
        if status is not None and status.edges:
            lag += f", through the edge {status.rpo_through_edges_s:.1f} s"
        return (
            f"{passed_s:.0f} of {self._seconds:.0f} s · A: {_site(self._plan.a)} · "
            f"B: {_site(self._plan.b)}{lag if not self._switch else ' · B is the primary'}"
        )

    def _mirror_status(self) -> MirrorStatus | None:
        try:
            return read_status(status_path(self._plan.b.settings.site))
        except StatusUnavailable:
            return None

    def _is_copying(self) -> bool:
        status = self._mirror_status()
        return status is not None and bool(status.partitions) and status.rpo_s == 0

    def _has_moved(self) -> bool:
        cameras = self._plan.cameras
        url = f"http://127.0.0.1:{cameras.edge.port}/v1/status"
        headers = bearer_headers(cameras.security.page_token)
        try:
            found = httpx.get(url, headers=headers, timeout=2.0).json().get("second_site", {})
        except (httpx.HTTPError, ValueError):
            return False
        return found.get("active") == "second" and not found.get("moving_to")

    async def _until(
        self, holds: Callable[[], bool], timeout_s: float, text: Callable[[], str]
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not await asyncio.to_thread(holds):
            if self.asked.is_set() or time.monotonic() > deadline:
                raise OperatorError(f"not reached in {timeout_s:.0f} s: {text()}")
            self.line.show(text())
            await asyncio.sleep(TICK_S)


def _site(site: SitePlan) -> str:
    count = stored_count(site.settings)
    return f"{'?' if count is None else count} stored, {alarm_count(site.settings)} alarms"

