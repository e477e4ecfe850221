"""A network behind a long link: a namespace that every packet reaches, and leaves, a little later.

In: a delay. Out: addresses of both ends, the words that start a process at the far one; cuts. The
kernel's own TCP runs on both ends, so that round trips, windows and socket buffers count as they do
between two cities. Needs root, the command `ip` and `/dev/net/tun`. Never: a packet changed, or
more than `MAX_BYTES` under way.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import struct
import subprocess
import sys
import time
from collections import deque
from types import TracebackType
from typing import Self

from deploy.errors import Unavailable

MTU = 9000
MAX_BYTES = 64 << 20
"""In one direction; what comes beyond is lost, as in a router."""
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_READY = "ready"


class DelayedLink:
    """Invariant: what exists outside this process is removed by `close`."""

    def __init__(self, delay_s: float) -> None:
        """`delay_s`: of one direction, half a round trip. Raises Unavailable."""
        if os.geteuid() != 0 or not shutil.which("ip") or not os.path.exists("/dev/net/tun"):
            raise Unavailable("a delayed link needs root, the command ip and /dev/net/tun")
        mark = os.urandom(3).hex()
        subnet = f"10.{150 + mark.encode()[0] % 40}.{os.urandom(1)[0]}"
        self.near_address, self.far_address = f"{subnet}.1", f"{subnet}.2"
        self._name = f"far{mark}"
        self._ip("netns", "add", self._name)
        words = [f"near{mark}", f"link{mark}", self._name, subnet, str(delay_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "deploy.servers.delayed_link", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != _READY:
            self.close()
            raise Unavailable("the delayed link could not be made; see the lines above")

    @property
    def far(self) -> tuple[str, ...]:
        """The words before a command that run it at the far end."""
        return ("ip", "netns", "exec", self._name)

    def cut(self) -> None:
        """Nothing passes from now on, without a word to either end."""
        self._send("cut")

    def heal(self) -> None:
        """Packets pass again."""
        self._send("heal")

    def close(self) -> None:
        """End it; processes at the far end must have ended."""
        self._process.kill()
        self._process.wait()
        subprocess.run(["ip", "netns", "delete", self._name], capture_output=True, check=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _send(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _ip(self, *words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


class PacketQueue:
    """One direction. Invariant: packets leave in their order, `delay_s` after they came."""

    def __init__(self, source: int, target: int, delay_s: float) -> None:
        self._source = source
        self._target = target
        self._delay_s = delay_s
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0

    @property
    def due_s(self) -> float | None:
        """When the next one leaves, by the monotonic clock."""
        return self._waiting[0][0] if self._waiting else None

    def receive(self, now_s: float, *, is_cut: bool) -> None:
        """All that have come."""
        while True:
            try:
                packet = os.read(self._source, MTU + 4)
            except BlockingIOError:
                return
            if not is_cut and self._bytes + len(packet) <= MAX_BYTES:
                self._waiting.append((now_s + self._delay_s, packet))
                self._bytes += len(packet)

    def pass_on(self, now_s: float) -> None:
        """Those whose time has come."""
        while self._waiting and self._waiting[0][0] <= now_s:
            _, packet = self._waiting.popleft()
            self._bytes -= len(packet)
            try:
                os.write(self._target, packet)
            except OSError:
                continue  # its queue is full, or the device is down: the packet is lost


def _device(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def _set_up(near: str, far: str, namespace: str, subnet: str) -> None:
    inside = ["ip", "-n", namespace]
    for words in (
        ["ip", "link", "set", far, "netns", namespace],
        ["ip", "addr", "add", f"{subnet}.1", "peer", f"{subnet}.2", "dev", near],
        ["ip", "link", "set", near, "mtu", str(MTU), "txqueuelen", "10000", "up"],
        [*inside, "addr", "add", f"{subnet}.2", "peer", f"{subnet}.1", "dev", far],
        [*inside, "link", "set", far, "mtu", str(MTU), "txqueuelen", "10000", "up"],
        [*inside, "link", "set", "lo", "up"],
    ):
        subprocess.run(words, check=True)


def main(words: list[str]) -> None:
    """Carry packets until stdin ends."""
    near, far, namespace, subnet, delay = words
    devices = _device(near), _device(far)
    _set_up(near, far, namespace, subnet)
    queues = (
        PacketQueue(devices[0], devices[1], float(delay)),
        PacketQueue(devices[1], devices[0], float(delay)),
    )
    print(_READY, flush=True)
    is_cut, commands = False, sys.stdin.fileno()
    while True:
        due = min((one.due_s for one in queues if one.due_s is not None), default=None)
        wait_s = None if due is None else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([*devices, commands], [], [], wait_s)
        if commands in ready:
            command = os.read(commands, 100).decode().split()
            if not command:
                return
            is_cut = command[-1] == "cut"
        now_s = time.monotonic()
        for one in queues:
            one.receive(now_s, is_cut=is_cut)
            one.pass_on(now_s)


if __name__ == "__main__":
    main(sys.argv[1:])
