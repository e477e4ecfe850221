"""The metrics of the mirror: lag, RPO, states, what was copied."""

from __future__ import annotations

from collections import Counter as CountOf
from collections import defaultdict

from prometheus_client import CollectorRegistry, Counter, Gauge

from bus.contracts.mirror_status import MirrorStatus, PartitionStatus, PictureStatus, ProofStatus
from dr_mirror.topics.states import MirrorState


class PictureMetrics:
    """Of the pictures that it copies."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pictures = Gauge(
            "databus_mirror_pictures", "Pictures: waiting to be copied, copied, given up, other at "
            "the target, compared again, differing from what was copied.", ["state"],
            registry=registry)
        self._oldest = Gauge(
            "databus_mirror_oldest_picture_seconds",
            "How long the picture that waits longest does; 0: none does.",
            registry=registry)  # fmt: skip

    def show(self, found: PictureStatus, now_ms: int) -> None:
        """The newest status."""
        for state, count in (
            ("waiting", found.waiting), ("copied", found.copied), ("given_up", found.given_up),
            ("other", len(found.other)), ("compared", found.compared),
            ("differing", len(found.differing)),
        ):  # fmt: skip
            self._pictures.labels(state).set(count)
        waits_ms = now_ms - found.oldest_ms if found.oldest_ms >= 0 else 0
        self._oldest.set(max(waits_ms, 0) / 1000)


class MirrorMetrics:
    """Of one mirror; per topic, since a city has thousands of partitions. The partitions one by one
    are in `databus mirror status`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lag_records = self._gauge(
            "lag_records", "Offsets that the source has and the target has not.", ["topic"])
        self._lag_bytes = self._gauge(
            "lag_bytes", "The same in bytes; what is not fetched yet by the mean size.", ["topic"])
        self._lag_s = self._gauge(
            "lag_seconds", "Age of the oldest record not at the target; -1: not known.", ["topic"])
        self._partitions = self._gauge(
            "partitions", "Partitions by their state.", ["topic", "state"])
        self._missing = self._gauge(
            "missing_records", "Offsets that the source deleted before they were copied.",
            ["topic"])
        self._topics = self._gauge("topics", "Topics by their state.", ["state"])
        self._rpo = self._gauge(
            "rpo_seconds", "Age of the oldest of all records not at the target; -1: not known.")
        self._rpo_through_edges = self._gauge(
            "rpo_through_edges_seconds",
            "The same of what came through the edges that are named; -1: not known, or none is.")
        self._edges = self._gauge(
            "edge_records", "Records of an edge, by whether it keeps them or had to delete them "
            "before the target had them.", ["edge", "kept"])
        self._rto = self._gauge(
            "rto_seconds", "What the longer way of the last drill took; -1: there was none.")
        self._buffered = self._gauge("buffered_bytes", "Fetched and not acknowledged.")
        self._copied_records = Counter(
            "databus_mirror_copied_records", "Records that the target acknowledged.", ["topic"],
            registry=self.registry)
        self._copied_bytes = Counter(
            "databus_mirror_copied_bytes", "Bytes of batches that the target acknowledged.",
            ["topic"], registry=self.registry)
        self._rebuilt_batches = Counter(
            "databus_mirror_rebuilt_batches",
            "Batches that were unpacked for an ordinary target: holes, or a broker's time.",
            registry=self.registry)
        self._rebuilt = 0
        self._complete_to = self._gauge(
            "complete_to_seconds",
            "Unix time up to which the target is proven to hold all of the source; -1: not known.",
            ["topic"])
        self._blocks = self._gauge(
            "blocks", "Blocks of offsets, by whether all replicas at the target are compared.",
            ["topic", "proven"])
        self._oldest = self._gauge(
            "oldest_proof_seconds",
            "Since when the block that waits longest was not compared; -1: nothing is to compare.",
            ["topic"])
        self._differences = self._gauge(
            "differences", "Ranges of offsets at which a replica differs from the source.",
            ["topic", "broker"])
        self._compared = Counter(
            "databus_mirror_compared_blocks", "Blocks of replicas compared with the source.",
            registry=self.registry)
        self._compared_bytes = Counter(
            "databus_mirror_compared_bytes", "Bytes of replicas read to be compared.",
            registry=self.registry)
        self._compared_before = 0, 0
        self._pictures = PictureMetrics(self.registry)
        self._copied: dict[tuple[str, int], tuple[int, int]] = {}  # fmt: skip

    def show(self, status: MirrorStatus) -> None:
        """The newest status."""
        by_topic: dict[str, list[PartitionStatus]] = defaultdict(list)
        for one in status.partitions:
            by_topic[one.topic].append(one)
        for gauge in (self._lag_records, self._lag_bytes, self._lag_s, self._missing):
            gauge.clear()
        self._partitions.clear()
        for topic, partitions in by_topic.items():
            self._show_topic(topic, partitions)
        states = CountOf(one.state for one in status.topics)
        states[MirrorState.DIFFERS.value] = sum(1 for t in status.proof.topics if t.differences)
        for state in MirrorState:
            self._topics.labels(state.value).set(states[state.value])
        self._rpo.set(status.rpo_s)
        self._rpo_through_edges.set(status.rpo_through_edges_s)
        for edge in status.edges:
            self._edges.labels(edge.url, "yes").set(edge.kept_records)
            self._edges.labels(edge.url, "no").set(edge.uncovered_records)
        self._rto.set(status.rto_s)
        self._buffered.set(status.buffered_bytes)
        self._rebuilt_batches.inc(max(status.rebuilt_batches - self._rebuilt, 0))
        self._rebuilt = status.rebuilt_batches

        self._show_proof(status.proof)
        self._pictures.show(status.pictures, status.at_ms)

    def _show_proof(self, proof: ProofStatus) -> None:
        for gauge in (self._complete_to, self._blocks, self._oldest, self._differences):
            gauge.clear()
        for one in proof.topics:
            complete_to_s = one.complete_to_ms / 1000 if one.complete_to_ms >= 0 else -1
            self._complete_to.labels(one.topic).set(complete_to_s)
            self._blocks.labels(one.topic, "yes").set(one.blocks)
            self._blocks.labels(one.topic, "no").set(one.unproven_blocks)
            self._oldest.labels(one.topic).set(one.oldest_s)
        found = CountOf((one.topic, one.broker) for one in proof.differences)
        for (topic, broker), count in found.items():
            self._differences.labels(topic, str(broker)).set(count)
        blocks, size = self._compared_before
        self._compared.inc(max(proof.compared_blocks - blocks, 0))
        self._compared_bytes.inc(max(proof.read_bytes - size, 0))
        self._compared_before = proof.compared_blocks, proof.read_bytes

    def _show_topic(self, topic: str, partitions: list[PartitionStatus]) -> None:
        self._lag_records.labels(topic).set(sum(max(one.lag_records, 0) for one in partitions))
        self._lag_bytes.labels(topic).set(sum(one.lag_bytes for one in partitions))
        is_unknown = any(one.lag_s < 0 for one in partitions)
        self._lag_s.labels(topic).set(-1 if is_unknown else max(one.lag_s for one in partitions))
        self._missing.labels(topic).set(sum(one.missing for one in partitions))
        for state, count in CountOf(one.state for one in partitions).items():
            self._partitions.labels(topic, state).set(count)
        more_records = more_bytes = 0
        for one in partitions:
            key = one.topic, one.partition
            records, size = self._copied.get(key, (0, 0))
            more_records += max(one.copied_records - records, 0)
            more_bytes += max(one.copied_bytes - size, 0)
            self._copied[key] = one.copied_records, one.copied_bytes
        self._copied_records.labels(topic).inc(more_records)
        self._copied_bytes.labels(topic).inc(more_bytes)

    def _gauge(self, name: str, text: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"databus_mirror_{name}", text, labels or [], registry=self.registry)
