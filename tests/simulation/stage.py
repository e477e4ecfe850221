"""Runs a world from a script, line by line, for the text scenarios.

In: commands (`kill 1`, `produce t 3`, `until t leader 2`). Out: lines of a transcript without
times, so that only events are compared. Never: a fault that the script does not contain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tests.simulation.admin import SimAdmin
from tests.simulation.cluster import SimCluster
from tests.simulation.consumer import SimConsumer
from tests.simulation.machine import SimMachine
from tests.simulation.network import Cut
from tests.simulation.observer import Observer
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.world import SimWorld

PATIENCE_S = 60.0


class ScriptStage:
    """One scenario's cluster and its three clients."""

    def __init__(self, name: str) -> None:
        self.world = SimWorld(f"scenario-{name}")
        self.network = self.world.network
        self.cluster = SimCluster(self.world, 3)
        self.producer: SimProducer | None = None
        self.verbs: dict[str, Callable[[list[str]], Iterable[str]]] = {
            "cluster": self._cluster, "topic": self._topic, "show": self._show,
            "produce": self._produce, "read": self._read, "kill": self._each(SimMachine.kill),
            "start": self._each(SimMachine.start), "pause": self._each(SimMachine.pause),
            "resume": self._each(SimMachine.resume), "power": self._each(SimMachine.lose_power),
            "up": self._each(SimMachine.power_up), "stop": self._stop, "isolate": self._isolate,
            "repair": self._repair, "wait": self._wait, "until": self._until, "elect": self._elect,
            "reassign": self._reassign, "complaints": self._complaints,
        }  # fmt: skip

    def run(self, line: str) -> Iterable[str]:
        """Runs one command; returns its transcript."""
        verb, *words = line.split()
        return list(self.verbs[verb](words))

    def end(self) -> None:
        """Ends the world."""
        self.world.end()

    def _admin(self) -> SimAdmin:
        return SimAdmin("admin", self.world.client_surroundings("admin", self.cluster.bootstrap))

    def _each(self, order: Callable[[SimMachine], None]) -> Callable[[list[str]], Iterable[str]]:
        def run_for_each(words: list[str]) -> Iterable[str]:
            for word in words:
                order(self._machine(word))
            return ()

        return run_for_each

    def _machine(self, word: str) -> SimMachine:
        return self.cluster.machines[int(word) - 1]

    # --- beginning -------------------------------------------------------------------------------

    def _cluster(self, words: list[str]) -> Iterable[str]:
        """`cluster COUNT [CONTROLLER]`"""
        self.cluster = SimCluster(self.world, int(words[0]), words[1] if words[1:] else "kraft")
        self.cluster.start()
        ready = self.world.until(
            lambda: len(self.cluster.serving()) == len(self.cluster.machines), PATIENCE_S
        )
        self.world.run(ready)
        self.observer = Observer(self.cluster)
        self._observing = self.world.loop.create_task(self.observer.run())
        yield f"{len(self.cluster.serving())} brokers serve"

    def _topic(self, words: list[str]) -> Iterable[str]:
        """`topic NAME [KEY=VALUE ...]`: one partition on all brokers, the first one leads."""
        configs = dict(word.split("=", 1) for word in words[1:])
        brokers = [machine.node_id for machine in self.cluster.machines]
        made = self.world.run(self._admin().create_on(words[0], brokers[:3], configs))
        return self._settled_show(words[0]) if made else ["refused"]

    def _settled_show(self, topic: str) -> Iterable[str]:
        self.world.run(asyncio.sleep(2))
        return self._show([topic])

    # --- queries ---------------------------------------------------------------------------------

    def _show(self, words: list[str]) -> Iterable[str]:
        """`show TOPIC`: its metadata, and every replica's end and watermark."""
        image = self.cluster.image()
        if image is None or words[0] not in image.topics:
            yield "nobody knows it"
            return
        partition = image.topics[words[0]].partitions[0]
        in_sync = ",".join(map(str, sorted(partition.isr)))
        eligible = ",".join(map(str, sorted(partition.elr)))
        yield (
            f"leader {partition.leader} in epoch {partition.leader_epoch}, in sync {in_sync or '-'}"
            + (f", eligible {eligible}" if eligible else "")
        )
        for machine, replica in self.cluster.partitions():
            if replica.topic == words[0]:
                role = "leads" if replica.is_leader else "follows"
                yield (
                    f"  broker {machine.node_id} {role}: end {replica.log.end_offset}, "
                    f"watermark {replica.high_watermark}"
                )

    def _read(self, words: list[str]) -> Iterable[str]:
        """`read TOPIC`: all values from the beginning."""
        around = self.world.client_surroundings("reader", self.cluster.bootstrap)
        values: list[str] = []
        before = len(self.world.history)
        ends = self.world.loop.time() + PATIENCE_S
        reading = self.world.run(SimConsumer("reader", around).read_all(words[0], 0, ends))
        for event in self.world.history[before:]:
            values += [value for _, value in getattr(event, "records", [])]
        yield f"{len(values)} values" if reading is not None else "cannot be read"
        if values:
            yield f"{values[0]} ... {values[-1]}"

    def _complaints(self, words: list[str]) -> Iterable[str]:
        """`complaints`: the complaints of observers and clients."""
        yield from self.world.complaints or ["none"]

    # --- actions ---------------------------------------------------------------------------------

    def _produce(self, words: list[str]) -> Iterable[str]:
        """`produce TOPIC COUNT [SECONDS]`: one idempotent batch with acks=all."""
        if self.producer is None:
            around = self.world.client_surroundings("producer", self.cluster.bootstrap)
            self.producer = SimProducer("producer", around, ProducerKind())
        within_s = float(words[2]) if words[2:] else 20.0
        worked = self.world.run(
            self.producer.write(words[0], 0, int(words[1]), within_s=within_s)
        )
        last = self.world.history[-1]
        yield f"acknowledged up to {getattr(last, 'offset', -1)}" if worked else "not acknowledged"

    def _stop(self, words: list[str]) -> Iterable[str]:
        """`stop NODE`: SIGTERM, and wait for its end."""
        machine = self._machine(words[0])
        machine.stop()
        ended = self.world.run(self.world.until(lambda: not machine.alive, PATIENCE_S))
        yield "stopped" if ended else "does not stop"

    def _isolate(self, words: list[str]) -> Iterable[str]:
        """`isolate NODE [reject]`: from the other brokers; clients reach it."""
        machine, how = self._machine(words[0]), Cut.REJECT if words[1:] else Cut.DROP
        for other in self.cluster.machines:
            if other is not machine:
                self.network.cut(machine.host, other.host, how)
                self.network.cut(other.host, machine.host, how)
        return ()

    def _repair(self, words: list[str]) -> Iterable[str]:
        """`repair`: repairs the network."""
        self.network.heal()
        return ()

    def _wait(self, words: list[str]) -> Iterable[str]:
        """`wait SECONDS`"""
        self.world.run(asyncio.sleep(float(words[0])))
        return ()

    def _elect(self, words: list[str]) -> Iterable[str]:
        """`elect TOPIC`: the preferred leader."""
        done = self.world.run(self._admin().elect_preferred(words[0], [0]))
        yield "done" if done else "refused"

    def _reassign(self, words: list[str]) -> Iterable[str]:
        """`reassign TOPIC 1,2,3`"""
        replicas = [int(word) for word in words[1].split(",")]
        done = self.world.run(self._admin().reassign(words[0], 0, replicas))
        yield "begun" if done else "refused"

    def _until(self, words: list[str]) -> Iterable[str]:
        """`until TOPIC leader not 1`, `until TOPIC insync 1,2,3`, `until TOPIC replicas 1,2,4`."""
        topic, what, *rest = words
        tests: dict[str, Callable[[object], bool]] = {
            "leader": lambda p: p.leader >= 0 and (  # type: ignore[attr-defined]
                p.leader != int(rest[1]) if rest[0] == "not" else p.leader == int(rest[0])  # type: ignore[attr-defined]
            ),
            "insync": lambda p: _names(p.isr) == rest[0],  # type: ignore[attr-defined]
            "replicas": lambda p: _names(p.replicas) == rest[0],  # type: ignore[attr-defined]
        }

        def so() -> bool:
            image = self.cluster.image()
            return image is not None and tests[what](image.topics[topic].partitions[0])

        if not self.world.run(self.world.until(so, PATIENCE_S)):
            yield f"not so after {PATIENCE_S:g} s"
        yield from self._settled_show(topic)


def _names(replicas: Iterable[int]) -> str:
    return ",".join(map(str, sorted(replicas)))
