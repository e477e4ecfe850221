"""One story: a real cluster, clients that record what they see, a fault, the check.

In: a running cluster and a folder. Out: a checked history. Never: a sleep instead of a condition; a
signal to a process that this story did not start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.paths import PROJECT_ROOT
from deploy.servers.databus_cluster import RunningCluster
from tests.checker import rules
from tests.checker.history import (
    AnyEvent,
    CommittedEvent,
    Healed,
    HistoryEvent,
    Poll,
    from_lines,
)
from tests.processes.cluster import java_client
from tests.processes.cluster.history_client import PARTITIONS, now_ms
from tests.processes.cluster.replicas import replica_states

PATIENCE_S = 180.0  # a loaded machine may reach a condition late
POLL_S = 0.25
TOPIC, GROUP = "story", "story"
COPIES, IN_SYNC = 3, 2


def eventually(condition: Callable[[], bool], what: str, told: Callable[[], str]) -> None:
    """Polls until it holds; no answer counts as false."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(confluent_kafka.KafkaException):
            if condition():
                return
        assert time.monotonic() < deadline, f"never: {what}\n{told()}"
        time.sleep(POLL_S)


class RunningStory:
    """A cluster with active clients.

    Invariant: every process in `_clients` was started here and is ended by `close`.
    """

    def __init__(self, cluster: RunningCluster, folder: Path) -> None:
        self.cluster = cluster
        self._folder = folder / "history"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._producers: list[subprocess.Popen[bytes]] = []
        self._members: list[subprocess.Popen[bytes]] = []
        self._java: list[tuple[int, int, subprocess.Popen[bytes]]] = []
        self._paused: set[int] = set()

    # -- before the fault ---------------------------------------------------------------------

    def open(self, *, java: bool = False) -> None:
        """Creates a topic with three replicas; starts two producers and two members of a group."""
        self.make(TOPIC)
        self._producers = [self._client(1, "produce"), self._client(2, "produce", "--plain")]
        self._members = [self._client(number, "consume", "--group", GROUP) for number in (3, 4)]
        if java:
            out, where = self._folder, (self.cluster.bootstrap, TOPIC)
            self._java = [
                (5, now_ms(), java_client.start_producer(out, *where, 5)),
                (6, now_ms(), java_client.start_consumer(out, *where, 6)),
            ]
        self.flows("before the fault")

    def flows(self, when: str, records: int = 100) -> None:
        """Waits until every client has recorded so many more events."""
        before = self._event_counts()
        eventually(
            lambda: all(
                now >= was + records for was, now in zip(before, self._event_counts(), strict=True)
            ),
            f"the flow goes on {when}: {before} → {self._event_counts()}",
            self.describe_brokers,
        )

    # -- faults -------------------------------------------------------------------------------

    def leader(self, partition: int = 0) -> int:
        """The leader of a partition; waits until there is one."""
        found = [-1]

        def known() -> bool:
            found[0] = self._partitions()[partition].leader
            return found[0] > 0

        eventually(known, "there is a leader", self.describe_brokers)
        return found[0]

    def follower(self) -> int:
        """A broker that does not lead partition 0."""
        leader = self.leader()
        return next(node for node in sorted(self.cluster.nodes) if node not in (leader, 100))

    def pause(self, node_id: int) -> None:
        """Sends SIGSTOP: the broker keeps its connections and sends nothing."""
        os.kill(self.cluster.nodes[node_id].pid, signal.SIGSTOP)
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Sends SIGCONT."""
        self._paused.discard(node_id)
        os.kill(self.cluster.nodes[node_id].pid, signal.SIGCONT)

    def leads_elsewhere(self, old: int) -> None:
        """Waits until another broker leads partition 0."""
        eventually(
            lambda: self._partitions()[0].leader not in (-1, old), "another broker leads", self.describe_brokers
        )

    def make(self, topic: str) -> None:
        """Creates another topic like the stage's own."""
        wanted = NewTopic(topic, PARTITIONS, COPIES, config={"min.insync.replicas": str(IN_SYNC)})
        eventually(lambda: self._made(wanted), f"{topic} is made", self.describe_brokers)
        eventually(lambda: self.all_in_sync(topic), "all copies are in sync", self.describe_brokers)

    def all_in_sync(self, topic: str = TOPIC) -> bool:
        """Whether every copy of every partition is in sync."""
        found = self._partitions(topic)
        return len(found) == PARTITIONS and all(
            each.leader > 0 and len(each.isrs) == COPIES for each in found.values()
        )

    # -- after the fault ----------------------------------------------------------------------

    def judge(self) -> None:
        """Checks, after the fault: all replicas in sync, everything readable, the twelve rules, the
        copies."""
        eventually(self.all_in_sync, "all copies are in sync again", self.describe_brokers)
        self.flows("after the fault")
        self._end_of(self._producers, "a producer's last records were not acknowledged")
        self._end_java()
        self._group_has_read_all()
        self._end_of(self._members, "a member of the group did not end")
        extra = [*self._committed(), Healed(at_ms=now_ms()), *self._read_all()]
        ends = self._ends()
        self.cluster.stop()
        for partition, end in ends.items():
            extra += replica_states(self.cluster, TOPIC, partition, end, now_ms())
        history = self._history(extra)
        acknowledged = sum(1 for event in history if type(event).__name__ == "Ack")
        assert acknowledged >= 200, f"only {acknowledged} records were acknowledged\n{self.describe_brokers()}"
        violations = rules.check(history)
        assert not violations, "\n".join(map(str, violations)) + "\n" + self.describe_brokers()

    def describe_brokers(self) -> str:
        """The ends of all nodes' logs and of the clients' errors, for a failure's message."""
        complaints = "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-800:]}"
            for path in sorted(self._folder.glob("*.err"))
        )
        return complaints + "\n" + self.cluster.logs()

    def close(self) -> None:
        """Ends all running clients."""
        for node_id in sorted(self._paused):
            self.resume(node_id)
        clients = [*self._producers, *self._members, *(process for _, _, process in self._java)]
        for process in clients:
            if process.poll() is None:
                process.kill()
                process.wait()

    # -- inside -------------------------------------------------------------------------------

    def _made(self, topic: NewTopic) -> bool:
        if topic.topic in self._admin.list_topics(timeout=10).topics:
            return True
        self._admin.create_topics([topic], request_timeout=20)[topic.topic].result(30)
        return True

    def _partitions(self, topic: str = TOPIC) -> dict[int, confluent_kafka.admin.PartitionMetadata]:
        found = self._admin.list_topics(topic, timeout=10).topics
        return dict(found[topic].partitions)

    def _client(self, number: int, kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.processes.cluster.history_client", kind, *words]
        command += ["--bootstrap", self.cluster.bootstrap, "--topic", TOPIC]
        path = self._folder / f"{number}.events"
        path.touch()
        with open(self._folder / f"{number}.err", "ab") as errors:
            return subprocess.Popen(
                [*command, "--number", str(number), "--file", str(path)],
                cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=errors, stderr=errors,
            )  # fmt: skip

    def _event_counts(self) -> list[int]:
        """The events of each client: acknowledgements of producers, records of the group."""
        counts = [
            (self._folder / f"{number}.events").read_bytes().count(b'"event":"ack"')
            for number in (1, 2)
        ]
        polled = 0
        for number in (3, 4):
            lines = (self._folder / f"{number}.events").read_bytes().splitlines()
            polled += sum(line.count(b"producer-") for line in lines if b'"event":"poll"' in line)
        counts.append(polled)
        for number, _, _ in self._java:
            out = (self._folder / f"java-{number}.out").read_bytes()
            counts.append(out.count(b'"producer_send_success"') + out.count(b'"record_data"'))
        return counts

    def _end_of(self, processes: list[subprocess.Popen[bytes]], otherwise: str) -> None:
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in processes:
            try:
                status = process.wait(PATIENCE_S * 2)
            except subprocess.TimeoutExpired:
                status = -1
            assert status == 0, f"{otherwise}\n{self.describe_brokers()}"

    def _end_java(self) -> None:
        for _, _, process in self._java:
            process.terminate()
        for _, _, process in self._java:
            process.wait(PATIENCE_S)

    def _group_has_read_all(self) -> None:
        def caught_up() -> bool:
            ends = self._ends()
            committed = {each.partition: each.offset for each in self._committed()}
            return all(committed.get(partition, -1) >= end for partition, end in ends.items())

        eventually(caught_up, "the group has read everything", self.describe_brokers)

    def _reader(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )

    def _ends(self) -> dict[int, int]:
        """The high watermark of each partition."""
        with contextlib.closing(self._reader()) as reader:
            return {
                partition: reader.get_watermark_offsets(
                    TopicPartition(TOPIC, partition), timeout=20, cached=False
                )[1]
                for partition in range(PARTITIONS)
            }

    def _committed(self) -> list[CommittedEvent]:
        asked_ms = now_ms()
        with contextlib.closing(self._reader()) as reader:
            places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
            found = reader.committed(places, timeout=20)
        return [
            CommittedEvent(
                at_ms=now_ms(), group=GROUP, topic=TOPIC, partition=each.partition,
                offset=max(-1, each.offset), asked_ms=asked_ms,
            )
            for each in found
        ]  # fmt: skip

    def _read_all(self) -> list[HistoryEvent]:
        """Reads every partition from its beginning to its end, with a separate consumer."""
        found: list[HistoryEvent] = []
        for partition, end in self._ends().items():
            with contextlib.closing(self._reader()) as reader:
                reader.assign([TopicPartition(TOPIC, partition, 0)])
                records: list[tuple[int, str]] = []

                def whole(
                    reader: Consumer = reader,
                    records: list[tuple[int, str]] = records,
                    end: int = end,
                ) -> bool:
                    for message in reader.consume(1000, timeout=1.0):
                        if message.error() is None:
                            records.append((message.offset(), (message.value() or b"").decode()))
                    return bool(records) and records[-1][0] + 1 >= end

                began_ms = now_ms()
                eventually(whole, f"partition {partition} is read up to {end}", self.describe_brokers)
                found.append(
                    Poll(
                        at_ms=began_ms, consumer="reader", assignment=f"all-{partition}",
                        topic=TOPIC, partition=partition, position=0, next=records[-1][0] + 1,
                        records=records, from_beginning=True,
                    )
                )  # fmt: skip
        return found

    def _history(self, extra: list[HistoryEvent]) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        for path in sorted(self._folder.glob("*.events")):
            events += from_lines(path.read_bytes().splitlines())
        for number, started_ms, _ in self._java:
            out = self._folder / f"java-{number}.out"
            events += java_client.events(out, number, started_ms)
        events += extra  # type: ignore[arg-type]
        return sorted(events, key=lambda event: event.at_ms)
