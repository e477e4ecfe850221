"""One machine of a world: its disk, its power, and the broker process that runs on it.

In: commands of the world (start, kill, pause, lose power). Out: real `Broker` objects on simulated
ports, a new one per process. Never: a clean-up after a kill; the next process finds what the last
one left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.config.views import BrokerConfig
from broker.server.broker import Broker
from broker.server.process import run_until_stopped
from broker.settings import ProcessSettings, split
from bus.errors import CheckFailed
from tests.simulation.cleaner_process import SimCleanerProcess
from tests.simulation.clock import EPOCH_MS, SimClock
from tests.simulation.disk import Fault, ProcessDisk, SimDisk, no_fault
from tests.simulation.loop import START_S, ProcessLife
from tests.simulation.network import ProcessNetwork
from tests.simulation.world import SimWorld

PORT = 9092
START_AGAIN_S = 1.0
"""A process that ends unexpectedly is restarted, as by systemd with this RestartSec."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the machines of a cluster stand; two clusters in a world have no name in common."""

    prefix: str
    subnet: str

    def host(self, node_id: int) -> str:
        """A machine's address."""
        return f"{self.subnet}.{node_id}"


FIRST_SITE = Place("", "10.0.0")
SECOND_SITE = Place("b-", "10.0.4")


class SimProcess:
    """One process of a broker."""

    def __init__(self, machine: SimMachine, number: int) -> None:
        world = machine.world
        self.life = ProcessLife(f"{machine.name}#{number}")
        self.clock = SimClock(world.loop, self.life, world.dice_of(f"{self.life.name}/clock"))
        self.clock.wall_error_ms = machine.wall_error_ms
        self.disk = ProcessDisk(machine.disk, self.life, world.dice_of(f"{self.life.name}/disk"))
        self.life.deathbed += [world.loop.bury, lambda: world.network.process_died(self.life)]
        self.network = ProcessNetwork(world.network, self.life, machine.host)
        self.broker: Broker | None = None
        self.cleaner: SimCleanerProcess | None = None
        self.serving = False
        self.ended = False
        self.asked_to_stop = False
        self.task: asyncio.Task[Any] | None = None


class SimMachine:
    """Invariant: at most one process of it runs."""

    def __init__(
        self,
        world: SimWorld,
        node_id: int,
        properties: Callable[[int], Mapping[str, str]],
        make_broker: Callable[[SimMachine, SimProcess, BrokerConfig, ProcessSettings], Broker],
        place: Place = FIRST_SITE,
    ) -> None:
        self.world, self.node_id = world, node_id
        self.name, self.host = f"{place.prefix}node{node_id}", place.host(node_id)
        self.properties, self.make_broker = properties, make_broker
        self.wall_error_ms = self.most_ahead_ms = 0
        self.powered = True
        self.disk = SimDisk(self.name, world.dice_of(f"{self.name}/disk"), self._now_ms)
        self.fault: Fault = no_fault
        """The faults of its disk, for all processes; see `break_disk`."""
        self.is_excused: Callable[[BaseException], bool] = lambda _: False
        """Whether the world explains that a process has ended with this error."""
        self.process: SimProcess | None = None
        self.lives: list[SimProcess] = []
        self.starts = 0

    def _now_ms(self) -> int:
        return EPOCH_MS + int((self.world.loop.time() - START_S) * 1000) + self.wall_error_ms

    @property
    def alive(self) -> bool:
        """Whether a process runs (it may be paused)."""
        return self.process is not None and not self.process.life.dead and not self.process.ended

    @property
    def paused(self) -> bool:
        return self.process is not None and self.process.life.paused

    @property
    def broker(self) -> Broker | None:
        """The broker, if it serves."""
        process = self.process
        if process is None or process.broker is None or not (self.alive and process.serving):
            return None
        return None if process.broker.is_stopping else process.broker

    def start(self) -> None:
        """Starts a new process."""
        if self.alive or not self.powered:
            return
        self.starts += 1
        process = self.process = SimProcess(self, self.starts)
        process.disk.fault = self.fault
        process.life.on_failure = lambda: self._end(process)
        self.lives.append(process)
        self.world.trace(f"{process.life} starts")
        loop = self.world.loop
        process.task = loop.create_task(self._main(process), context=process.life.context)

    async def _main(self, process: SimProcess) -> None:
        kafka, settings = split(self.properties(self.node_id))
        config = BrokerConfig.from_mapping(kafka)
        try:
            broker = process.broker = self.make_broker(self, process, config, settings)
            await run_until_stopped(broker, lambda _: self._serves(process))
            self.world.trace(f"{process.life} has stopped")
        except (Exception, CheckFailed) as error:
            self._failed(process, error)
        self._end(process)

    def _serves(self, process: SimProcess) -> None:
        process.serving = True
        self.world.trace(f"{process.life} serves")

    def _end(self, process: SimProcess) -> None:
        process.ended = True
        process.life.die()
        if not process.asked_to_stop:
            loop = self.world.loop
            loop.call_later(START_AGAIN_S, self.start, context=loop.kernel)

    def _failed(self, process: SimProcess, error: BaseException) -> None:
        """Handles a process that could not start or stop, or died of a bug; a full or broken disk
        excuses that, and what the cluster knows of."""
        if process.disk.was_broken or self.is_excused(error):
            self.world.trace(f"{process.life} ended: {error}")
        else:
            self.world.on_broker_failure(process, error)

    def stop(self) -> None:
        """SIGTERM."""
        if self.alive and self.process is not None and self.process.serving:
            self.world.trace(f"{self.process.life} is asked to stop")
            self.process.asked_to_stop = True
            broker = self.process.broker
            assert broker is not None
            self.world.loop.call_soon(broker.request_stop, context=self.process.life.context)

    def kill(self) -> None:
        """SIGKILL: the page cache stays."""
        if self.alive and self.process is not None:
            self.world.trace(f"{self.process.life} is killed")
            self.process.life.die()

    def kill_in_mid_write(self, after: int) -> None:
        """SIGKILL before the given number of further writes is reached."""
        if self.alive and self.process is not None:
            self.process.disk.die_after = after

    def lose_power(self) -> None:
        """Takes the power: unflushed bytes are lost, and peers get neither FIN nor reset."""
        self.world.network.host_lost_power(self.host)
        if self.process is not None:
            if self.process.cleaner is not None:
                self.process.cleaner.lose_power()
            self.process.life.deathbed[:] = [self.world.loop.bury]
            self.process.life.die()
            for address in [
                a for a, (life, _) in self.world.network.listening.items()
                if life is self.process.life
            ]:  # fmt: skip
                del self.world.network.listening[address]
        self.powered = False
        harmed = self.disk.lose_power()
        self.world.trace(f"{self.name} loses power, {harmed} operations lost or torn")

    def power_up(self) -> None:
        """Restores the power; starts no process."""
        self.powered = True
        self.world.network.host_is_up(self.host)
        self.world.trace(f"{self.name} is up again")

    def pause(self) -> None:
        """SIGSTOP."""
        if self.alive and self.process is not None:
            self.world.trace(f"{self.process.life} is paused")
            self.world.loop.pause(self.process.life)

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None and self.process.life.paused:
            self.world.trace(f"{self.process.life} goes on")
            self.world.loop.resume(self.process.life)

    def break_disk(self, fault: Fault) -> None:
        """Makes the disk fail as `fault` says, for this process and later ones."""
        self.fault = fault
        if self.process is not None:
            self.process.disk.fault = fault

    def jump_clock(self, by_ms: int) -> None:
        """Changes the wall clock, as an operator would."""
        self.wall_error_ms += by_ms
        self.most_ahead_ms = max(self.most_ahead_ms, self.wall_error_ms)
        if self.process is not None:
            self.process.clock.wall_error_ms = self.wall_error_ms
        self.world.trace(f"{self.name}'s wall clock jumps by {by_ms} ms")
