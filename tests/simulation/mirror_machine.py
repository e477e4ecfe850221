"""The machine of a mirror, and the operator who commands a switch: real roles in a world.

In: the settings of the role, commands. Out: what `databus run mirror` and `databus mirror switch`
do, on simulated connections; their status, reports and tails lie in a real folder. Never: a
clean-up after a kill; the next process finds what the last one left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

from bus.errors import BusError
from bus.settings import SiteSettings
from dr_mirror.edges.edge_watch import EdgeWatch
from dr_mirror.report.plan.switch_report import ReportError, SwitchStatement
from dr_mirror.service import role
from dr_mirror.service.mirror import Mirror
from dr_mirror.settings import MirrorSettings
from dr_mirror.status.metrics import MirrorMetrics
from dr_mirror.status.status_file import StatusUnavailable, read_status, status_path
from dr_mirror.switch import cli
from dr_mirror.switch.copy_again import CopiedAgain, CopyAgain
from dr_mirror.switch.site_client import EpochRefused
from dr_mirror.switch.steps import SwitchLimits, SwitchRefused, SwitchUnfinished
from tests.simulation.blocking import PORTS, Ports
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife
from tests.simulation.network import ProcessNetwork
from tests.simulation.world import SimWorld

MIRROR_HOST, OPERATOR_HOST = "10.0.5.1", "10.0.5.2"
RETRY_S = 2.0
LIMITS = SwitchLimits(max_lag_s=30.0, timeout_s=20.0)
PASSING = (
    SwitchRefused, SwitchUnfinished, EpochRefused, StatusUnavailable, BusError, OSError, ReportError,
)  # fmt: skip
"""What a person answers by running the same command again."""


Done = TypeVar("Done", SwitchStatement, CopiedAgain)


def said_of(done: SwitchStatement | CopiedAgain) -> str:
    """In a trace."""
    if isinstance(done, SwitchStatement):
        return f"site epoch {done.epoch}"
    return f"{done.records} records are kept"


class MirrorMachine:
    """Invariant: at most one process of it runs; `mirror` is that of the newest."""

    def __init__(self, world: SimWorld, settings: MirrorSettings, folder: Path) -> None:
        self.world, self.settings = world, settings
        self.site = SiteSettings(data_dir=str(folder), language="en")
        self.mirror: Mirror | None = None
        self._life: ProcessLife | None = None
        self._starts = 0
        self._made: list[Mirror] = []

    @property
    def alive(self) -> bool:
        """Whether a process runs (it may be paused)."""
        return self._life is not None and not self._life.dead

    @property
    def runs(self) -> bool:
        """Whether it copies what it reaches."""
        return self._life is not None and not self._life.dead and not self._life.paused

    def start(self) -> None:
        """Starts a new process."""
        if self.alive:
            return
        self._starts += 1
        life = self._life = ProcessLife(f"mirror#{self._starts}")
        life.deathbed += [self.world.loop.bury, lambda: self.world.network.process_died(life)]
        self.world.trace(f"{life} starts")
        clock = enter(self.world, life, MIRROR_HOST)
        shown, edges = role.StatusPage(MirrorMetrics()), EdgeWatch(())
        copying = role._copy_always(self.site, self.settings, shown, edges)
        clock.spawn(copying, name="mirror")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The role shows what it makes: only the process that runs makes anything."""

        def make(*args: Any) -> Mirror:
            self.mirror = Mirror(*args)
            self._made.append(self.mirror)
            return self.mirror

        with patch.object(role, "Mirror", make):
            yield

    def kill(self) -> None:
        """SIGKILL."""
        if self._life is not None and self.alive:
            self.world.trace(f"{self._life} is killed")
            self._life.die()
            self._free_files()
            self.mirror = None

    def _free_files(self) -> None:
        """What the kernel does at a death: its lock on the file of comparisons ends."""
        for made in self._made:
            file = made._reconciler._file
            if file is not None:
                file.close()
        self._made.clear()

    def pause(self) -> None:
        """SIGSTOP."""
        if self._life is not None and self.alive:
            self.world.trace(f"{self._life} is paused")
            self.world.loop.pause(self._life)

    def resume(self) -> None:
        """SIGCONT."""
        if self._life is not None and self._life.paused:
            self.world.loop.resume(self._life)


class Operator:
    """A person at the second site, with the mirror's settings and files."""

    def __init__(self, world: SimWorld, machine: MirrorMachine) -> None:
        self.world, self.machine = world, machine
        self._life = ProcessLife("operator")
        self._clock = enter(world, self._life, OPERATOR_HOST)
        self.refusals: list[str] = []

    async def switch(self, to: str) -> SwitchStatement:
        """`mirror switch --to`, until it is done."""
        return await self._until_done(f"--to {to}", lambda ctx: cli._switch(ctx, to, LIMITS, True))

    async def force(self, to: str) -> SwitchStatement:
        """`mirror switch --to --force --it-answers`, until it is done."""
        return await self._until_done(
            f"--force --to {to}", lambda ctx: cli._force(ctx, to, LIMITS, True, True)
        )

    async def bring_back(self) -> SwitchStatement:
        """`mirror switch --back`, until it is done."""
        return await self._until_done("--back", lambda ctx: cli._bring_back(ctx, LIMITS, True))

    async def copy_again(self, topic: str) -> CopiedAgain:
        """`mirror copy-anew`, until it is done."""
        return await self._until_done(
            f"copy-anew {topic}", lambda ctx: self._copied_anew(ctx, topic)
        )

    def _copied_anew(self, context: Any, topic: str) -> CopiedAgain:
        site, target = self.machine.site, cli._sites(context)["B"]
        target.refresh()
        return CopyAgain(
            target, lambda: read_status(status_path(site)), topic=topic, name=topic,
            folder=site.data_path / "mirror" / "kept", on_step=lambda *_: None,
            timeout_s=LIMITS.timeout_s,
        ).run(with_files=True)  # fmt: skip

    async def _until_done(self, what: str, command: Callable[[Any], Done]) -> Done:
        while True:
            task = self._clock.spawn(self._once(command), name=what)
            done = await task
            if not isinstance(done, str):
                self.world.trace(f"operator: {what} is done: {said_of(done)}")
                return done
            self.world.trace(f"operator: {what}: {done}")
            self.refusals.append(f"{what}: {done}")
            await asyncio.sleep(RETRY_S)

    async def _once(self, command: Callable[[Any], Done]) -> Done | str:
        """What was done, or why there is nothing yet."""
        closing: list[Callable[[], None]] = []
        found = SimpleNamespace(mirror=self.machine.settings, site=self.machine.site)
        context = SimpleNamespace(obj=found, call_on_close=closing.append)
        try:
            return await asyncio.to_thread(command, context)
        except PASSING as error:
            return f"{type(error).__name__}: {error}"
        finally:
            for close in closing:
                close()


def enter(world: SimWorld, life: ProcessLife, host: str) -> SimClock:
    """Gives a process its ports; returns its clock, which spawns what runs in it."""
    clock = SimClock(world.loop, life, world.dice_of(f"{life.name}/clock"))
    ports = Ports(clock, ProcessNetwork(world.network, life, host))
    life.context.run(PORTS.set, ports)
    return clock
