"""The recorder against GStreamer's RTSP server and a real broker."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import cv2
import msgspec
import pytest

from bus.contracts.register import Checkpoint, Device, District, Register, encode_register
from bus.contracts.topics import DATA_VIDEO_SEGMENT
from bus.contracts.video_segments import VideoSegment
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import RunningBroker, start_broker
from deploy.topics import make_topics
from tests.ingest.films.rtsp_servers import RunningRtspServer, start_rtsp_server

pytestmark = pytest.mark.slow
BOUND_S = 90.0
USER, PASSWORD = "watcher", "s3cret-of-the-camera"
CAMERA, OTHER = "10.0.0.9", "10.0.0.10"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("broker"))
    make_topics(BusSettings(bootstrap_servers=running.bootstrap))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningRtspServer]:
    running = start_rtsp_server(user=USER, password=PASSWORD)
    yield running
    running.stop()


class RecorderProcess:
    """`databus run recorder` on a folder of its own; what it says is kept in a file."""

    def __init__(
        self, folder: Path, broker: RunningBroker, streams: dict[str, str],
        wrong: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.folder = folder
        self._config = folder / "databus.toml"
        self._log = folder / "recorder.log"
        passwords = "\n".join(f'"{one}" = "{USER}:{PASSWORD if one not in wrong else "other"}"' for one in streams)
        self._config.write_text(
            f'[site]\ndata_dir = "{folder}"\n[bus]\nbootstrap_servers = "{broker.bootstrap}"\n'
            f"[film]\nallow_loopback = true\nsegment_s = 1\nmin_free_bytes = 0\n"
            f'cameras = "{",".join(streams)}"\n[film.passwords]\n{passwords}\n',
            encoding="utf-8",
        )
        register = Register(
            districts=(District(district_id="d", name="区", name_en="d"),),
            checkpoints=(Checkpoint(checkpoint_id="c", name="口", name_en="c", district_id="d",
                                    latitude=30, longitude=120),),
            devices=tuple(Device(camera_ip=ip, checkpoint_id="c", kind="video", stream=url)
                          for ip, url in streams.items()),
        )  # fmt: skip
        (folder / "register.json").write_bytes(encode_register(register))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deploy", "--config", str(self._config), *flags,
                 "run", "recorder"],
                cwd=PROJECT_ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def command_line(self) -> bytes:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/cmdline").read_bytes()

    def environment(self) -> bytes:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/environ").read_bytes()

    def end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(60)

    def stop_if_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)

    def log(self) -> str:
        return self._log.read_text("utf-8")

    def file(self, segment: VideoSegment) -> Path:
        return self.folder / "films" / segment.name


class RedirectingServer:
    """Answers everything with another address."""

    def __init__(self, location: str) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"rtsp://127.0.0.1:{self._socket.getsockname()[1]}/film"
        answer = f"RTSP/1.0 302 Moved\r\nCSeq: 1\r\nLocation: {location}\r\n\r\n"
        threading.Thread(target=self._serve, args=(answer.encode(),), daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self, answer: bytes) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)


class SegmentConsumer:
    """All that was said of one camera."""

    def __init__(self, bootstrap: str, camera_ip: str) -> None:
        self._camera_ip = camera_ip
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"test-{os.urandom(6).hex()}",
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        self._consumer.subscribe([DATA_VIDEO_SEGMENT])
        self.seen: list[VideoSegment] = []

    def until(self, holds: Callable[[list[VideoSegment]], bool]) -> list[VideoSegment]:
        deadline = time.monotonic() + BOUND_S
        while not holds(self.seen):
            assert time.monotonic() < deadline, self.seen
            message = self._consumer.poll(0.2)
            if message is not None and not message.error():
                segment = msgspec.json.decode(message.value(), type=VideoSegment)
                if segment.camera_ip == self._camera_ip:
                    self.seen.append(segment)
        return self.seen

    def close(self) -> None:
        self._consumer.close()


def stored(seen: list[VideoSegment]) -> list[VideoSegment]:
    return [one for one in seen if one.state == "stored"]


def frames_of(path: Path) -> int:
    film, count = cv2.VideoCapture(str(path)), 0
    while film.read()[0]:
        count += 1
    return count


def is_whole(recorder: RecorderProcess, segment: VideoSegment) -> bool:
    """On the disk with the bytes that were announced."""
    data = recorder.file(segment).read_bytes()
    same = hashlib.sha256(data).hexdigest() == segment.sha256
    return same and len(data) == segment.size_bytes


def test_segments_are_on_the_disk_when_they_are_announced_and_play_from_each_keyframe(
    tmp_path: Path, broker: RunningBroker, server: RunningRtspServer
) -> None:
    streams = {CAMERA: server.url(), OTHER: server.url("/other")}
    recorder = RecorderProcess(tmp_path, broker, streams)
    consumers = {camera: SegmentConsumer(broker.bootstrap, camera) for camera in streams}
    recorder.start()
    try:
        found = {c: one.until(lambda seen: len(stored(seen)) >= 3) for c, one in consumers.items()}
        assert PASSWORD.encode() not in recorder.command_line() + recorder.environment()
        assert recorder.end(signal.SIGTERM) == 0
    finally:
        recorder.stop_if_running()
        for one in consumers.values():
            one.close()
    for seen in found.values():
        segments = stored(seen)
        assert all(is_whole(recorder, one) for one in segments)
        assert [frames_of(recorder.file(one)) for one in segments] == [one.frames for one in segments]
        assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(segments))
        for one in segments:
            data = recorder.file(one).read_bytes()
            assert all(data[key.offset + 4 : key.offset + 8] == b"moof" for key in one.keyframes)
            assert (one.codec, one.width, one.height) == ("h264", 640, 360)
            assert one.keyframes[0].at_ms == one.start_ms
            assert all(one.start_ms <= key.at_ms < one.end_ms for key in one.keyframes)
    assert PASSWORD not in recorder.log()


def test_kill_9_loses_the_open_segment_only_and_the_next_start_tells_the_gap(
    tmp_path: Path, broker: RunningBroker, server: RunningRtspServer
) -> None:
    camera = "10.0.1.1"
    recorder = RecorderProcess(tmp_path, broker, {camera: server.url()})
    consumer = SegmentConsumer(broker.bootstrap, camera)
    recorder.start()
    try:
        before = list(stored(consumer.until(lambda seen: len(stored(seen)) >= 2)))
        recorder.end(signal.SIGKILL)
        recorder.start()
        seen = consumer.until(
            lambda seen: any(one.state == "gap" for one in seen)
            and len(stored(seen)) > len(before) + 1
        )
        assert recorder.end(signal.SIGTERM) == 0
    finally:
        recorder.stop_if_running()
        consumer.close()
    (gap,) = (one for one in seen if one.state == "gap")
    assert gap.reason == "recorder-ended"
    segments = sorted(
        {one.segment_id: one for one in stored(seen)}.values(), key=lambda one: one.start_ms
    )
    assert all(is_whole(recorder, one) for one in segments)
    ends = {one.end_ms for one in segments}
    assert gap.start_ms in ends
    assert gap.end_ms in {one.start_ms for one in segments}
    assert not any(gap.start_ms <= one.start_ms < gap.end_ms for one in segments)
    on_disk = set((tmp_path / "films").rglob("*.mp4"))
    assert {recorder.file(one) for one in segments} <= on_disk


def test_a_wrong_password_a_redirect_or_another_codec_records_nothing_and_stops_no_other_camera(
    tmp_path: Path, broker: RunningBroker, server: RunningRtspServer
) -> None:
    other_codec, redirecting = start_rtsp_server(codec="vp8"), RedirectingServer(server.url())
    refused = {
        "10.0.2.2": (other_codec.url(), "its video is VP8"),
        "10.0.2.3": (server.url("/none"), "status 404"),
        "10.0.2.4": (server.url("/other"), "does not accept the name and password"),
        "10.0.2.5": (redirecting.url, "redirects (302), which is refused"),
    }
    streams = {"10.0.2.1": server.url(), **{ip: url for ip, (url, _) in refused.items()}}
    recorder = RecorderProcess(tmp_path, broker, streams, frozenset({"10.0.2.4"}))
    consumer = SegmentConsumer(broker.bootstrap, "10.0.2.1")
    recorder.start()
    try:
        consumer.until(lambda seen: len(stored(seen)) >= 1)
        deadline = time.monotonic() + BOUND_S
        while not all(
            any(line.partition(f" {ip}: no film: ")[2].count(why) for line in recorder.log().splitlines())
            for ip, (_, why) in refused.items()
        ):
            assert time.monotonic() < deadline, recorder.log()
            time.sleep(0.1)
    finally:
        recorder.stop_if_running()
        consumer.close()
        other_codec.stop()
        redirecting.close()
    assert {path.name for path in (tmp_path / "films").iterdir()} == {"open", "10.0.2.1"}
    assert PASSWORD not in recorder.log()


def test_without_leave_no_stream_of_this_machine_is_opened(
    tmp_path: Path, broker: RunningBroker, server: RunningRtspServer
) -> None:
    recorder = RecorderProcess(tmp_path, broker, {"10.0.3.1": server.url()})
    recorder.start("--set", "film.allow_loopback=false")
    try:
        deadline = time.monotonic() + BOUND_S
        while "10.0.3.1: no film: 127.0.0.1 is this machine" not in recorder.log():
            assert time.monotonic() < deadline, recorder.log()
            time.sleep(0.1)
    finally:
        recorder.stop_if_running()
    assert not list((tmp_path / "films").rglob("*.mp4"))
