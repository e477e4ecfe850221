"""The long link of the mirror's bench delays every packet, keeps their order, and can be cut."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from deploy.errors import Unavailable
from deploy.servers.delayed_link import MAX_BYTES, DelayedLink, PacketQueue

ONE_WAY_S = 0.05
ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("up", flush=True)
line, _ = server.accept()
while data := line.recv(1 << 16):
    line.sendall(data)
"""
PORT = 5000


@pytest.fixture
def link() -> Iterator[DelayedLink]:
    try:
        made = DelayedLink(ONE_WAY_S)
    except Unavailable as missing:
        pytest.skip(str(missing))
    with made:
        yield made


def test_a_round_trip_takes_twice_the_delay_and_a_cut_holds_back_all(link: DelayedLink) -> None:
    words = [*link.far, sys.executable, "-c", ECHO, link.far_address, str(PORT)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        line = socket.create_connection((link.far_address, PORT), timeout=10)
        with line:
            begin = time.monotonic()
            line.sendall(b"there and back")
            assert line.recv(100) == b"there and back"
            assert time.monotonic() - begin >= 2 * ONE_WAY_S
            link.cut()
            line.sendall(b"later")
            line.settimeout(0.5)
            with pytest.raises(TimeoutError):
                line.recv(100)
            line.settimeout(30)
            link.heal()
            assert line.recv(100) == b"later", "TCP has sent it again"
        server.wait(10)


def test_packets_leave_in_their_order_not_before_their_time_and_within_a_bound() -> None:
    source, into = os.pipe2(os.O_NONBLOCK)
    out, target = os.pipe2(os.O_NONBLOCK)
    queue = PacketQueue(source, target, 10.0)
    try:
        for number in range(3):
            os.write(into, b"%d" % number)
            queue.receive(float(number), is_cut=False)
        os.write(into, b"lost")
        queue.receive(3.0, is_cut=True)
        assert queue.due_s == 10.0
        queue.pass_on(9.9)
        with pytest.raises(BlockingIOError):
            os.read(out, 100)
        queue.pass_on(11.0)
        assert os.read(out, 100) == b"01"
        queue.pass_on(100.0)
        assert os.read(out, 100) == b"2"
        assert queue.due_s is None
        packet = b"x" * 4096
        for _ in range(MAX_BYTES // len(packet) + 5):
            os.write(into, packet)
            queue.receive(0.0, is_cut=False)
        kept = 0
        while queue.due_s is not None:
            queue.pass_on(20.0)
            with_room = True
            while with_room:
                try:
                    kept += len(os.read(out, 1 << 20))
                except BlockingIOError:
                    with_room = False
        assert 0 < kept <= MAX_BYTES
    finally:
        for descriptor in (source, into, out, target):
            os.close(descriptor)
