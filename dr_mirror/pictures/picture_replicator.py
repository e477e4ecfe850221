"""Copies pictures of records to the other site, beside the records, and compares them again.

In: the target's topics, two edges. Out: pictures at the target; a `PictureStatus`. Core:
`dr_mirror.pictures.plan.pictures`. Never: a wait of the records for a picture; a topic read further
than `PictureFile` has room for its names.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.topic_follower import refreshed_follower
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.mirror_status import PictureStatus
from bus.errors import BusError
from bus.runtime.wall_clock import now_ms
from dr_mirror.pictures.picture_edges import PictureEdges
from dr_mirror.pictures.picture_file import PictureFile, PictureFileError
from dr_mirror.pictures.plan.pictures import CopyOutcome, PictureCheck, TriedPicture, picture_names
from dr_mirror.settings import MirrorSettings

log = logging.getLogger(__name__)

CLIENT_ID = "databus-mirror-pictures"
THREADS = 4
"""Pictures under way at once; each is in memory, and both edges work for their cameras as well."""
BATCH = 32
COMPARED = 32
"""At most so many comparisons beside each batch, so that a backlog does not end them."""
MAX_POLLED = 500
POLL_S = 0.2
IDLE_S = 0.3
AWAY_S = 3.0
TIMEOUT_S = 10.0
AGAIN_S = 30.0
"""A topic, or partitions, may come."""
STATUS_S = 1.0
ENDS_S = 3.0


class PictureReplicator:
    """One thread, one direction. Invariant: `status` is that of its last look, at most some
    seconds old while an edge answers slowly."""

    def __init__(
        self,
        settings: MirrorSettings,
        target_cluster_id: str,
        path: Path,
        on_link: Callable[[int], None],
    ) -> None:
        """`settings`: with the site that the pictures come from as the source; `target_cluster_id`:
        of the other one. `path`: its file. `on_link(size)` returns when more may come over the
        link."""
        self._settings, self._target_cluster_id, self._path = settings, target_cluster_id, path
        self._pace = settings.proof_pace
        self._edges = PictureEdges(
            settings.source_pictures_url, settings.target_pictures_url, settings.pictures_token,
            on_link,
        )  # fmt: skip
        self._status = PictureStatus(policy=settings.pictures.value)
        self._problem = ""
        self._unread = -1
        self._counted_s = self._ends_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)

    @property
    def status(self) -> PictureStatus:
        """How it stands."""
        return self._status

    def start(self) -> PictureReplicator:
        """Begin."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End; what is under way is tried again at the next start. Returns at once: the thread ends
        by itself."""
        self._stopping.set()
        self._edges.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                file = PictureFile(self._path)
            except PictureFileError as error:
                self._fail(error)
                continue
            try:
                self._copy_always(file)
            finally:
                file.close()

    def _copy_always(self, file: PictureFile) -> None:
        """Until stopped, or the file fails."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="picture") as pool:
            while not self._stopping.is_set():
                try:
                    self._follow(file, pool)
                except BusError as error:
                    self._fail(error)
                except PictureFileError as error:
                    self._fail(error)
                    return

    def _fail(self, error: Exception) -> None:
        log.info("pictures are copied later: %s", error)
        self._problem = str(error)
        self._status = msgspec.structs.replace(self._status, problem=self._problem)
        self._stopping.wait(AWAY_S)

    def _follow(self, file: PictureFile, pool: ThreadPoolExecutor) -> None:
        """Read topics and copy, for a while, or until one is another one. Raises BusError,
        PictureFileError."""
        bus, names = self._settings.target_bus, self._settings.pictures.topics
        with (
            closing(refreshed_follower(bus, names)) as followed,
            Consumer(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S) as topics,
            # Over the consumer's connection a question waits behind its fetch, half a second each.
            closing(Admin(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)) as admin,
        ):
            renewed, now = followed.renewals(), followed.identity
            if now is not None:
                file.stand_on(self._target_cluster_id, now.topic_ids)
            places = topics.partitions_of_all(names)
            read = file.positions(self._target_cluster_id)
            topics.assign({place: read.get(place, BEGINNING) for place in places})
            until_s, is_busy = time.monotonic() + AGAIN_S, False
            while not self._stopping.is_set() and time.monotonic() < until_s:
                if recreated := renewed():
                    log.warning("made anew, its pictures are copied again: %s", sorted(recreated))
                    return
                wait_s = 0.0 if is_busy else POLL_S
                records = topics.poll(MAX_POLLED, wait_s) if places and file.has_room() else []
                self._add(file, records)
                is_busy = self._copy(file, pool) or bool(records)
                self._compare(file, pool)
                self._update_status(file, admin, places)
                if not is_busy:
                    self._stopping.wait(IDLE_S)

    def _add(self, file: PictureFile, records: Iterable[ConsumedRecord]) -> None:
        names: dict[str, None] = {}
        positions: dict[TopicPartition, int] = {}
        for record in records:
            names.update(dict.fromkeys(picture_names(record.topic, record.value)))
            positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
        if positions:
            file.add(names, now_ms(), self._target_cluster_id, positions)

    def _copy(self, file: PictureFile, pool: ThreadPoolExecutor) -> bool:
        """A batch of what is due; whether anything came of it."""
        waiting = file.due(now_ms(), BATCH)
        if not waiting:
            return False
        tried = list(pool.map(self._try, (one.name for one in waiting)))
        file.settle(zip(waiting, tried, strict=True), self._pace, now_ms())
        away = next((one for one in tried if one.outcome is CopyOutcome.AWAY), None)
        self._problem = "" if away is None else away.detail
        for one in tried:
            if one.outcome in (CopyOutcome.OTHER, CopyOutcome.REFUSED):
                log.warning("picture %s is not copied: %s", one.name, one.detail)
        if away is not None:
            self._stopping.wait(AWAY_S)
        return True

    def _try(self, name: str) -> TriedPicture:
        if self._stopping.is_set():
            return TriedPicture(name, CopyOutcome.AWAY)
        return self._edges.copy(name)

    def _compare(self, file: PictureFile, pool: ThreadPoolExecutor) -> None:
        kept = file.to_compare(now_ms(), COMPARED)
        if not kept or self._problem:
            return
        found = list(zip(kept, pool.map(self._edges.check, kept), strict=True))
        file.compared(found, self._pace, now_ms())
        for picture, check in found:
            if check is PictureCheck.DIFFERS:
                log.error("picture %s at the target is not what was copied", picture.name)

    # -- how it stands ----------------------------------------------------------------------

    def _update_status(self, file: PictureFile, admin: Admin, places: set[TopicPartition]) -> None:
        now_s = time.monotonic()
        if now_s - self._counted_s < STATUS_S:
            return
        self._counted_s = now_s
        if now_s - self._ends_s >= ENDS_S:
            self._ends_s = now_s
            read = file.positions(self._target_cluster_id)
            starts, ends = admin.start_offsets(places), admin.end_offsets(places)
            self._unread = _unread(starts, ends, read)
        totals = file.totals()
        copied, size = totals.get(CopyOutcome.COPIED.value, (0, 0))
        (waiting, oldest_ms), (compared, oldest_compared_ms) = file.waiting(), file.retained()
        gone = (CopyOutcome.ABSENT, CopyOutcome.REFUSED)
        self._status = PictureStatus(
            policy=self._settings.pictures.value, waiting=waiting, oldest_ms=oldest_ms,
            unread_records=self._unread, copied=copied, copied_bytes=size,
            present=totals.get(CopyOutcome.PRESENT.value, (0, 0))[0],
            given_up=sum(totals.get(one.value, (0, 0))[0] for one in gone),
            shown_given_up=tuple(f"{name}: {why}" for name, why in file.given_up(gone)),
            other=tuple(name for name, _ in file.given_up([CopyOutcome.OTHER])),
            compared=compared, differing=tuple(file.differing()),
            oldest_compared_ms=oldest_compared_ms, problem=self._problem,
        )  # fmt: skip


def _unread(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    read: Mapping[TopicPartition, int],
) -> int:
    """Records of topics whose pictures are not known yet."""
    return sum(
        max(0, end - max(starts.get(at, 0), read.get(at, 0))) for at, end in ends.items()
    )
