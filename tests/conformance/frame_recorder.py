"""Records the exchanges of unmodified clients with Apache Kafka: the golden frames of the codec.

In: where Kafka listens, a file. Out: one line of JSON per exchange (client and test, API, version,
both frames in hex without their length), a few of each kind, as `tests/bus/protocol/data` has them.
Never: a change of what passes through.

`DATABUS_CONFORMANCE=kafka DATABUS_RECORD_FRAMES=FILE.jsonl.gz` before a run of this folder.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bus.protocol.apis import ApiKey
from bus.protocol.frames import LENGTH, decode_request

HOST = "127.0.0.1"
MAX_FRAME_BYTES = 4096
"""What is longer is records, of which shorter frames have some."""
PER_KIND = 2
"""Exchanges kept of one client, test, API and version."""


class FrameRecorder:
    """A proxy. Invariant: bytes pass in their order; a frame is kept when its answer is there."""

    def __init__(self, file: Path) -> None:
        self.target = (HOST, 0)
        self._file = file
        self._kept: list[dict[str, object]] = []
        self._seen: Counter[tuple[str, int, int]] = Counter()
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Writes the file."""
        self._listener.close()
        with self._lock, gzip.open(self._file, "wt", encoding="utf-8") as out:
            for entry in sorted(self._kept, key=lambda one: (str(one["label"]), one["api"])):
                out.write(json.dumps(entry) + "\n")

    def keep(self, software: str, request: bytes, response: bytes) -> None:
        """One exchange, unless there are enough of its kind or it is too long."""
        key, version = struct.unpack_from(">hh", request)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2].partition("[")[0]
        label = f"{software} {test.partition(' ')[0]}"
        with self._lock:
            self._seen[label, key, version] += 1
            enough = self._seen[label, key, version] > PER_KIND
            if not enough and max(len(request), len(response)) <= MAX_FRAME_BYTES:
                self._kept.append({
                    "label": label, "api": key, "version": version,
                    "request": request.hex(), "response": response.hex(),
                })  # fmt: skip

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self.target)
                except OSError:
                    client.close()
                    continue
                connection = _RecordedConnection(self, client, server)
                for work in (connection.pass_requests, connection.pass_responses):
                    threading.Thread(target=work, daemon=True).start()


class _RecordedConnection:
    """One client's connection, and the same one on to the server."""

    def __init__(
        self, recorder: FrameRecorder, client: socket.socket, server: socket.socket
    ) -> None:
        self._recorder, self._client, self._server = recorder, client, server
        self._software = "unnamed"
        self._asked: dict[int, bytes] = {}

    def pass_requests(self) -> None:
        for frame in _frames(self._client, self._server):
            key, _, correlation_id = struct.unpack_from(">hhi", frame)
            self._asked[correlation_id] = frame
            if key == ApiKey.API_VERSIONS:
                self._name(frame)
            self._server.sendall(LENGTH.pack(len(frame)) + frame)

    def pass_responses(self) -> None:
        for frame in _frames(self._server, self._client):
            request = self._asked.pop(struct.unpack_from(">i", frame)[0], None)
            if request is not None:
                self._recorder.keep(self._software, request, frame)
            self._client.sendall(LENGTH.pack(len(frame)) + frame)

    def _name(self, frame: bytes) -> None:
        _, asked = decode_request(memoryview(frame))
        if asked.client_software_name:
            self._software = f"{asked.client_software_name}-{asked.client_software_version}"


def _frames(source: socket.socket, target: socket.socket) -> Iterator[bytes]:
    """Whole frames until the source ends; then the target is ended, too."""
    with suppress(OSError), source.makefile("rb") as reader:
        while len(head := reader.read(LENGTH.size)) == LENGTH.size:
            yield reader.read(int.from_bytes(head, "big"))
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
