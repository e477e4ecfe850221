"""Tells on `meter.arrived` what the edge took: per device and slot, once the bus has it.

Reads the spool a second time, up to where the forwarder is, and counts by what each message says of
itself. A count is a function of its segment: after a `kill -9` the segments that are left are
counted again, and the same numbers come out. A segment is kept until its counts are on the bus.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

import msgspec

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, OnDelivery, Producer, RecordMetadata
from bus.contracts import headers, topics
from bus.contracts.meters import Arrived
from bus.errors import BusError
from ingest.edge.sites.site_route import SiteRoute
from ingest.edge.slot_counts import SlotCounts
from ingest.spool import Place, Spool

log = logging.getLogger(__name__)

REPORT_S = 15.0
"""Between two messages of a slot: what it needs of the bus and of ingest falls with it."""
POLL_S = 1.0
"""How often it is looked whether anything still comes: of what rests all is told at once."""
READ_MESSAGES = 500
CLIENT_ID = "databus-edge-arrivals"
_FLUSH_S = 10.0  # then what is not acknowledged counts as not told
_STOP_FLUSH_S = 3.0


class ArrivalMeter:
    """The shell: one thread, one producer, one `SlotCounts` for the segment that is being read."""

    def __init__(self, spool: Spool, route: SiteRoute, edge: str) -> None:
        self._spool = spool
        self._route = route
        self._site = route.active
        self._edge = edge
        self._reader = spool.slot_reader()
        self._counts = self._new_counts()
        self._published: dict[Place, int] = {}  # where the counts of this segment end on the bus
        self._published_sequence = self._reader.sequence
        self._seen_sequence = -1  # of the spool's end, at the last look
        self._next_round_s = time.monotonic() + REPORT_S
        self._producer: Producer | None = None
        self._headers = [
            (headers.SCHEMA, topics.TOPICS[topics.METER_ARRIVED].schema.encode()),
            (headers.SITE, edge.encode()),
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    @property
    def unreported(self) -> int:
        """Messages of the spool that no message has told of: more of them than the bus lacks."""
        return max(0, self._spool.end_sequence - self._published_sequence)

    def start(self) -> None:
        """Begin to count and to tell."""
        self._thread.start()

    def stop(self) -> None:
        """Tell once more, waiting a little; after the forwarder has stopped."""
        self._stopping.set()
        self._thread.join()
        self._reader.close()

    def _run(self) -> None:
        while not self._stopping.wait(POLL_S):
            if self._is_due():
                self._round(_FLUSH_S)
                self._next_round_s = time.monotonic() + REPORT_S
        self._round(_STOP_FLUSH_S)
        if self._producer is not None:
            self._producer.close(0)

    def _is_due(self) -> bool:
        """After a while, and as soon as nothing more has come: an account is made of what rests."""
        end, seen = self._spool.end_sequence, self._seen_sequence
        self._seen_sequence = end
        is_resting = seen == end == self._spool.drained_sequence
        return time.monotonic() >= self._next_round_s or (is_resting and self.unreported > 0)

    def _round(self, flush_s: float) -> None:
        """Count what the bus has by now and tell it; a fault leaves it for the next round."""
        try:
            if self._site != self._route.active:
                self._begin_again()
            while self._count() and self._publish(flush_s) and self._reader.enter_next():
                self._counts = self._new_counts()
                published, self._published = self._published, {}
                self._spool.keep_from(self._reader.segment.first_sequence, published)
            if self._publish(flush_s):
                self._published_sequence = self._reader.sequence
        except OSError as error:
            log.warning("the spool cannot be read, what arrived is told later: %s", error)
        except BusError as error:
            log.warning("the producer failed, what arrived is told by the next: %s", error)
            self._close_producer()

    def _begin_again(self) -> None:
        """Another site is sent to: it may lack what the one before was told last."""
        self._close_producer()
        self._site = self._route.active
        self._reader.close()
        self._reader = self._spool.slot_reader()
        self._counts, self._published = self._new_counts(), {}
        self._published_sequence = self._reader.sequence

    def _close_producer(self) -> None:
        if self._producer is not None:
            self._producer.close(0)
        self._producer = None

    def _count(self) -> bool:
        """Everything of this segment that the bus has; whether that is all of a whole segment."""
        while (left := self._left()) > 0:
            found = self._reader.read(min(left, READ_MESSAGES), within_segment=True)
            if not found:
                break
            for _, slot in found:
                if slot is not None:
                    self._counts.add(slot)
        return self._reader.sequence >= self._reader.segment.end_sequence

    def _left(self) -> int:
        end = min(self._spool.drained_sequence, self._reader.segment.end_sequence)
        return end - self._reader.sequence

    def _publish(self, flush_s: float) -> bool:
        """Send the slots that have grown; whether all are acknowledged."""
        grown = self._counts.grown()
        if not grown:
            return True
        # Filled by the producer's thread.
        acknowledged: deque[tuple[Arrived, RecordMetadata]] = deque()
        bus = self._route.bus(self._site)
        producer = self._producer = self._producer or Producer(bus, client_id=CLIENT_ID)
        for message in grown:
            producer.send(
                topics.METER_ARRIVED,
                msgspec.json.encode(message),
                key=message.camera_ip.encode(),
                headers=self._headers,
                on_delivery=_when_delivered(acknowledged, message),
            )
        producer.flush(flush_s)
        while acknowledged:
            message, metadata = acknowledged.popleft()
            self._counts.acknowledge(message)
            place = metadata.topic, metadata.partition
            self._published[place] = max(self._published.get(place, 0), metadata.offset + 1)
        return not self._counts.grown()

    def _new_counts(self) -> SlotCounts:
        segment = self._reader.segment
        return SlotCounts(edge=f"{self._edge}/{segment.spool}", epoch=segment.epoch)


def _when_delivered(
    acknowledged: deque[tuple[Arrived, RecordMetadata]], message: Arrived
) -> OnDelivery:
    def delivered(outcome: DeliveryReport) -> None:
        if not isinstance(outcome, DeliveryError):
            acknowledged.append((message, outcome))

    return delivered
