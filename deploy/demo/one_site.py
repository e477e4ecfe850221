"""`demo`: the whole product with a living city, and at the end the account.

In: settings, how long. Out: exit status 0 only if every record is accounted for.
Never: knowledge of how a package does its work; it starts roles, waits, and reads their totals.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from bus.domain.visibility import EVERYTHING
from deploy.cluster.layout import ClusterPlan
from deploy.cluster.processes import cluster_processes, cluster_settings
from deploy.cluster.run import about
from deploy.demo.fault import LeaderKill
from deploy.distributed.layout import EMBEDDED, DistributedPlan
from deploy.distributed.processes import distributed_processes, distributed_settings, stands_in
from deploy.errors import OperatorError
from deploy.open_stores import open_operations, open_records
from deploy.reconcile import collect, report
from deploy.reconcile.drain import drain
from deploy.roles.prepare import prepare
from deploy.roles.table import BROKER, DEMO, children, console_endpoint
from deploy.settings.composed import Settings
from deploy.supervisor.child import Child, RoleState
from deploy.supervisor.status_line import StatusLine
from deploy.supervisor.supervise import check_not_running, describe, stop_on_signals
from deploy.supervisor.supervisor import Supervisor
from ingest.store.port import PageRequest, StoreError
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.one_time_links import issue_one_time_link

TICK_S = 0.5
DRAIN_IDLE_S = 180.0  # without progress: a batch of Spark and HBase on a busy machine
READY_TIMEOUT_S = 300.0  # Spark on a busy machine with two cores
SERVERS_READY_TIMEOUT_S = 900.0  # a city's servers: fourteen JVMs on the same two cores
ALARMS_COUNTED = 200  # alarms counted for the line; the account counts all


async def demo(
    settings: Settings,
    seconds: float | None,
    *,
    as_json: bool,
    plan: ClusterPlan | None = None,
    distributed: DistributedPlan = EMBEDDED,
    kill_at_s: float | None = None,
) -> int:
    """Run for a time, or until asked to stop; then account. With plans, on that cluster of brokers,
    that Spark and that HBase."""
    folder, line = settings.site.data_path, StatusLine()
    settings, processes = planned(settings, plan, distributed)
    check_not_running(folder, processes)
    prepare(settings)
    supervisor = Supervisor(processes, folder, about=about(plan) if plan else {})
    ready_s = READY_TIMEOUT_S if distributed == EMBEDDED else SERVERS_READY_TIMEOUT_S
    run = DemoRun(settings, supervisor, line, seconds, ready_s)
    run.leader_kill = (
        LeaderKill(run.supervisor, kill_at_s, line.say) if plan and kill_at_s else None
    )
    stop_on_signals(run.asked, run.hurry)
    await run.supervisor.start()
    try:
        await run.run()
        return await run.reconcile(as_json)
    finally:
        line.say("stopping")
        await run.supervisor.stop()


def planned(
    settings: Settings, plan: ClusterPlan | None, distributed: DistributedPlan
) -> tuple[Settings, list[Child]]:
    """The settings of all roles, and their processes."""
    brokers = cluster_processes(settings, plan) if plan else []
    stands_for = {BROKER: [child.name for child in brokers]} if plan else {}
    if plan:
        settings = cluster_settings(settings, plan)
    settings = distributed_settings(settings, distributed)
    bus = stands_for.get(BROKER, [BROKER])
    others = [*brokers, *distributed_processes(settings, distributed, bus)]
    stands_for |= stands_in(distributed)
    return settings, children(settings, DEMO, others=others, stands_for=stands_for)


class DemoRun:
    """One run of the demo, from the first process to the account.

    Invariant: the city is stopped before the totals are compared, everything else after.
    """

    def __init__(
        self,
        settings: Settings,
        supervisor: Supervisor,
        line: StatusLine,
        seconds: float | None,
        ready_timeout_s: float,
    ) -> None:
        self.settings = settings
        self.supervisor = supervisor
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()  # with a role that cannot start, nothing arrives for minutes
        self._line = line
        self._seconds = seconds
        self._ready_timeout_s = ready_timeout_s
        self._started_s = time.monotonic()
        self._ready_s: float | None = None
        self._stored_before = stored_count(settings) or 0
        self.first_stored_s: float | None = None
        self.leader_kill: LeaderKill | None = None

    async def run(self) -> None:
        """Runs until the time is over, a signal, or a role is given up."""
        while not self.asked.is_set() and not self.supervisor.failed and not self._time_is_over():
            if self._ready_s is None and self.supervisor.all_ready:
                self._on_ready()
            await self._update_line()
            if self.leader_kill and self._ready_s is not None:
                passed_s = time.monotonic() - self._ready_s
                await asyncio.to_thread(self.leader_kill.strike_when_due, self.settings, passed_s)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.asked.wait(), TICK_S)
        for name in self.supervisor.failed:
            log = self.settings.site.data_path / "log" / f"{name}.log"
            self._line.say(f"{name} died too often; the reason is in {log}")

    async def reconcile(self, as_json: bool) -> int:
        """Stops the city, waits until the pipeline is drained, compares the totals."""
        if self._ready_s is None or self.supervisor.failed:
            self._line.say(self._what_is_not_ready())
            return 1
        self.asked.set()
        self._line.say("the city stops; what is on its way arrives (Ctrl-C: do not wait for it)")
        await self.supervisor.stop_role("city")
        await drain(self.settings, DRAIN_IDLE_S, self._line.show, self.hurry)
        try:
            account = await asyncio.to_thread(collect.reconcile, self.settings)
        except StoreError as error:
            self._line.say(f"no account: {error}")
            return 1
        self._line.say("")
        if as_json:
            more = {
                "first_stored_s": self.first_stored_s,
                "restarts": self.supervisor.restarts,
                "killed": self.leader_kill.victim if self.leader_kill else "",
            }
            plain = {**msgspec.to_builtins(account), "balanced": account.balanced, **more}
            print(msgspec.json.encode(plain).decode(), flush=True)
        else:
            report.print_reconciliation(account, as_json=False)
        return 0 if account.balanced else 1

    def _what_is_not_ready(self) -> str:
        children = self.supervisor.children.items()
        late = [name for name, child in children if child.state is not RoleState.RUNNING]
        passed_s = time.monotonic() - self._started_s
        return (
            f"no account: after {passed_s:.0f} s not ready: {', '.join(late) or 'none'}; "
            f"logs: {self.settings.site.data_path / 'log'}"
        )

    def _on_ready(self) -> None:
        self._ready_s = time.monotonic()
        endpoint = console_endpoint(self.settings)
        self._line.say(f"all roles run after {self._ready_s - self._started_s:.1f} s")
        try:
            link = issue_one_time_link(
                self.settings.site.data_path,
                minutes=self.settings.console.link_minutes,
                base_url=f"http://{endpoint.probe_host}:{endpoint.port}",
            )
            self._line.say(f"console: {link}   (works once; stop with Ctrl-C)")
        except AccountsUnavailable as error:
            self._line.say(f"no link to the console: {error}")

    def _time_is_over(self) -> bool:
        now_s = time.monotonic()
        if self._ready_s is None:
            return now_s - self._started_s > self._ready_timeout_s
        return self._seconds is not None and now_s - self._ready_s >= self._seconds

    async def _update_line(self) -> None:
        """Draw the line; note when the first record of this run was stored. A store may take
        seconds to answer, in which roles are restarted and signals heard all the same."""
        count = await asyncio.to_thread(stored_count, self.settings)
        if self.first_stored_s is None and (count or 0) > self._stored_before:
            self.first_stored_s = round(time.monotonic() - self._started_s, 2)
            self._line.say(f"first record stored after {self.first_stored_s} s")
        if self._ready_s is None:
            self._line.show(describe(self.supervisor))
            return
        passed = time.monotonic() - self._ready_s
        until = f" of {self._seconds:.0f}" if self._seconds else ""
        known = "?" if count is None else count
        again = f" · {self.supervisor.restarts} restarts" if self.supervisor.restarts else ""
        alarms = await asyncio.to_thread(alarm_count, self.settings)
        self._line.show(f"{passed:.0f}{until} s · {known} stored · {alarms} alarms{again}")


def stored_count(settings: Settings) -> int | None:
    """Records in the store; None while it does not answer."""
    try:
        with contextlib.closing(open_records(settings)) as reader:
            return sum(reader.counts().stored.values())
    except (StoreError, OperatorError):
        return None


def alarm_count(settings: Settings) -> str:
    """Alarms raised, as far as a glance tells; none before there is a dispatcher."""
    try:
        with contextlib.closing(open_operations(settings)) as reader:
            found, more = reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=ALARMS_COUNTED))
    except (StoreError, OperatorError):
        return "no"
    return f"{len(found)}{'+' if more else ''}"
