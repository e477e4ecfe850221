"""The recorder: the streams of many cameras into segments, without decoding; one process.

In: the register, settings, a bus. Out: files in the film store, messages on `data.video-segment`.
A task for each camera: it reads, cuts, and waits while its segment is written, so that a slow disk
holds back the camera and not the memory. Core: `ingest.films.segmenter`, `ingest.films.retention`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from bus.client.register_follower import RegisterFollower
from bus.contracts.register import Device
from bus.contracts.video_segments import GapReason
from bus.domain.stream_address import StreamRefused, check_host, stream_address
from bus.runtime.tasks import watch
from bus.settings import BusSettings, SiteSettings
from ingest.films.announcer import SegmentAnnouncer
from ingest.films.camera_stream import CameraStream
from ingest.films.catalogue import FilmCatalogue
from ingest.films.deletion import delete_due
from ingest.films.nal_units import BadParameterSet
from ingest.films.rtsp.messages import RtspError
from ingest.films.segment_writer import DiskFailed, SegmentWriter, continue_after_kill
from ingest.films.segmenter import NoKeyframe, SegmentEffect, Segmenter
from ingest.films.settings import FilmSettings
from ingest.films.store import FilmStore

log = logging.getLogger(__name__)

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
REGISTER_POLL_S = 2.0
ANNOUNCE_S, DELETE_S = 0.5, 5.0
WRITERS = 8
READY = "recorder: ready"


class FilmRecorder:
    """Invariant: `_tasks` has a task for each camera that is recorded, by address and stream."""

    def __init__(self, site: SiteSettings, bus: BusSettings, settings: FilmSettings) -> None:
        self._settings = settings
        self._catalogue = FilmCatalogue(settings.catalogue_path(site))
        self._store = FilmStore(
            settings.store_url(site), settings.catalogue_path(site).parent
        )
        self._register = RegisterFollower(bus, site.data_path / "register.json", "recorder")
        self._announcer = SegmentAnnouncer(bus, self._catalogue, "recorder")
        self._writers = ThreadPoolExecutor(WRITERS, "film")
        self._stopping = asyncio.Event()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def stop(self) -> None:
        """Ask `run` to return."""
        self._stopping.set()

    async def run(self) -> None:
        """Record until stopped; open segments are ended and kept."""
        lost = await asyncio.to_thread(continue_after_kill, self._store, self._catalogue)
        if lost:
            log.warning("%d segments were open when an earlier recorder ended: lost", lost)
        self._register.start()
        try:
            async with asyncio.TaskGroup() as group:
                watch(group.create_task(self._announce(), name="announce"))
                watch(group.create_task(self._delete(), name="delete"))
                watch(group.create_task(self._follow_register(group), name="register"))
                print(READY, flush=True)
                await self._stopping.wait()
                for task in self._tasks.values():
                    task.cancel()
        finally:
            await asyncio.to_thread(self._announcer.announce_due)
            self._announcer.close()
            self._register.close()
            self._writers.shutdown()
            self._catalogue.close()

    async def _follow_register(self, group: asyncio.TaskGroup) -> None:
        while not self._stopping.is_set():
            register = await asyncio.to_thread(self._register.read)
            wanted = {(d.camera_ip, d.stream): d for d in register.devices if self._records(d)}
            for key in self._tasks.keys() - wanted.keys():
                self._tasks.pop(key).cancel()
            for key in wanted.keys() - self._tasks.keys():
                task = group.create_task(self._record(*key), name=f"camera {key[0]}")
                self._tasks[key] = watch(task)
            await self._pause(REGISTER_POLL_S)

    def _records(self, device: Device) -> bool:
        chosen = self._settings.chosen_cameras
        return bool(device.stream) and (not chosen or device.camera_ip in chosen)

    async def _record(self, camera_ip: str, stream: str) -> None:
        """One camera for ever: connect, record, and again after a pause that grows."""
        writer = SegmentWriter(self._store, self._catalogue, camera_ip)
        backoff_s = FIRST_BACKOFF_S
        while True:
            frames = 0
            reason: GapReason = "stream-lost"
            try:
                ip = await self._checked_ip(stream)
                async for count in self._film(camera_ip, stream, ip, writer):
                    frames += count
            except (RtspError, StreamRefused, NoKeyframe, BadParameterSet, TimeoutError) as error:
                log.warning("%s: no film: %s", camera_ip, str(error) or "no answer in time")
            except OSError as error:
                log.warning("%s: no film: %s", camera_ip, error.strerror or error)
            except DiskFailed as error:
                reason = "disk-failed"
                log.error("%s: the film store takes nothing: %s", camera_ip, error)
            backoff_s = FIRST_BACKOFF_S if frames else min(2 * backoff_s, LONGEST_BACKOFF_S)
            await asyncio.get_running_loop().run_in_executor(
                self._writers, writer.abandon, reason
            )
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1))

    async def _checked_ip(self, stream: str) -> str:
        """Where the stream's host is, every address of it checked, and connected to as checked."""
        address = stream_address(stream)
        loop = asyncio.get_running_loop()
        resolving = loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        found = await asyncio.wait_for(resolving, self._settings.connect_timeout_ms / 1000)
        ips = [str(entry[4][0]) for entry in found]
        for ip in ips:
            check_host(ip, allow_loopback=self._settings.allow_loopback)
        return ips[0]

    async def _film(
        self, camera_ip: str, stream: str, ip: str, writer: SegmentWriter
    ) -> AsyncIterator[int]:
        """One connection; how many pictures came, again and again."""
        settings = self._settings
        user, _, password = settings.passwords.get(camera_ip, "").partition(":")
        connection = CameraStream(
            stream_address(stream), user, password, settings.connect_timeout_ms / 1000
        )
        segmenter: Segmenter | None = None
        try:
            track = await connection.open(ip)
            segmenter = Segmenter(
                camera_ip, track.codec, track.clock_hz, settings.segment_s * 1000,
                track.parameter_sets,
            )  # fmt: skip
            async for units in connection.units(settings.silence_timeout_ms / 1000):
                effects = [effect for unit in units for effect in segmenter.on_unit(unit)]
                if effects:
                    await self._write(writer, effects)
                yield len(units)
        finally:
            if segmenter is not None:
                with suppress(DiskFailed):
                    await asyncio.shield(self._write(writer, segmenter.finish()))
            await connection.close()

    async def _write(self, writer: SegmentWriter, effects: list[SegmentEffect]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, writer.write, effects)

    async def _announce(self) -> None:
        while not self._stopping.is_set():
            await asyncio.to_thread(self._announcer.announce_due)
            await self._pause(ANNOUNCE_S)

    async def _delete(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.to_thread(
                    delete_due, self._store, self._catalogue, self._settings
                )
            except OSError as error:
                log.warning("films are not deleted: %s", error)
            await self._pause(DELETE_S)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)


async def serve(site: SiteSettings, bus: BusSettings, settings: FilmSettings) -> None:
    """Run until SIGTERM or Ctrl-C."""
    recorder = FilmRecorder(site, bus, settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, recorder.stop)
    await recorder.run()
