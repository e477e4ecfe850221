"""A separate network for each broker of a story: namespaces on a bridge, and cuts between them.

In: how many. Out: addresses, the command prefix for a process inside, cuts by nft (silently
dropped, or refused). Never: another story's network; everything is removed at the end. Needs root
and the commands `ip` and `nft`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

ROUTER = 254  # the bridge's own address: used by clients and ZooKeeper
TABLE = "story"


class CannotNetwork(Exception):
    """Not root, or `ip` or `nft` is missing or not permitted."""


class Networks:
    """Namespaces 1..n on one bridge.

    Invariant: `_made` names what exists and must be removed.
    """

    def __init__(self, count: int) -> None:
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft"):
            raise CannotNetwork("network namespaces need root and the commands ip and nft")
        # Unique for this object: the kernel removes an earlier one's devices only after a while.
        self._mark = os.urandom(3).hex()
        self._subnet = _unused_subnet()
        self._made: list[list[str]] = []
        try:
            self._bridge()
            for number in range(1, count + 1):
                self._namespace(number)
        except BaseException:
            self.close()
            raise

    def address(self, number: int) -> str:
        """The address of a broker inside."""
        return f"{self._subnet}.{number}"

    @property
    def router(self) -> str:
        """The address of all processes outside."""
        return f"{self._subnet}.{ROUTER}"

    def prefix(self, number: int) -> tuple[str, ...]:
        """The command prefix that runs a command inside."""
        return ("ip", "netns", "exec", self._name(number))

    def cut(self, number: int, others: Sequence[str], verdict: str) -> None:
        """Cuts a broker from these addresses, by `drop` or `reject`."""
        refuse = "reject with tcp reset" if verdict == "reject" else "drop"
        lines = [f"add table inet {TABLE}"]
        for hook, side in (("input", "saddr"), ("output", "daddr")):
            chain = f"inet {TABLE} {hook}"
            lines.append(f"add chain {chain} {{ type filter hook {hook} priority 0; }}")
            for other in others:
                lines.append(f"add rule {chain} ip {side} {other} meta l4proto tcp {refuse}")
                lines.append(f"add rule {chain} ip {side} {other} drop")
        self._nft(number, "\n".join(lines))

    def heal(self, number: int) -> None:
        """Removes all cuts."""
        self._nft(number, f"add table inet {TABLE}\ndelete table inet {TABLE}")

    def close(self) -> None:
        """Removes everything, newest first; missing parts are ignored."""
        for words in reversed(self._made):
            subprocess.run(["ip", *words], capture_output=True, check=False)
        self._made = []

    def _name(self, number: int) -> str:
        return f"dbs{self._mark}n{number}"

    def _bridge(self) -> None:
        name = f"dbs{self._mark}"
        self._ip("link", "add", name, "type", "bridge")
        self._made.append(["link", "delete", name])
        self._ip("addr", "add", f"{self.router}/24", "dev", name)
        self._ip("link", "set", name, "up")

    def _namespace(self, number: int) -> None:
        name, outer, inner = self._name(number), f"dbs{self._mark}o{number}", "eth0"
        self._ip("netns", "add", name)
        self._made.append(["netns", "delete", name])
        self._made.append(["link", "delete", outer])
        self._ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        self._ip("link", "set", outer, "master", f"dbs{self._mark}", "up")
        self._ip("-n", name, "link", "set", "lo", "up")
        self._ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", inner)
        self._ip("-n", name, "link", "set", inner, "up")

    def _nft(self, number: int, script: str) -> None:
        self._run(["ip", "netns", "exec", self._name(number), "nft", "-f", "-"], script)

    def _ip(self, *words: str) -> None:
        self._run(["ip", *words], "")

    def _run(self, command: list[str], script: str) -> None:
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotNetwork(f"{' '.join(command)}: {done.stderr.strip()}")


def _unused_subnet() -> str:
    """The first three numbers of addresses that no interface here has."""
    done = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=False)
    while True:
        high, low = os.urandom(2)
        subnet = f"10.{200 + high % 50}.{low}"
        if f" {subnet}." not in done.stdout:
            return subnet
