"""What a produce request costs among ten thousand ACLs, beside ten.

In: nothing. Out: a ratio of the broker's processor time. Never: an ACL that decides otherwise: the
cameras are allowed by the same one both times, half of the others are prefixed, on many hosts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from bus.client.admin.cluster_admin import ClusterAdmin
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from bus.settings import BusSettings
from deploy.bench.broker_bench import cameras
from deploy.bench.program import answer_of_program, module_command
from deploy.bench.targets import OURS, Target, broker_flags, role, wait_for_port
from deploy.secure.broker_keys import KRAFT_AUTHORIZER
from deploy.servers.process import free_port

FEW, MANY = 10, 10_000
CONNECTIONS, RATE = 500, 5.0
AT_ONCE = 1_000
CREATE_TIMEOUT_S = 60
CAMERAS = "User:ANONYMOUS"


def cost_of_many() -> float:
    """The ratio, on one broker that gets the others after it was measured with few."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as text:
        port, metrics = free_port(), free_port()
        flags = [
            *broker_flags(port, metrics),
            f"broker.authorizer.class.name={KRAFT_AUTHORIZER}",
            "broker.allow.everyone.if.no.acl.found=true",
        ]
        with role("broker", Path(text), flags) as process:
            wait_for_port(process, port, Path(text))
            target = Target(OURS, f"127.0.0.1:{port}", process.pid)
            command = module_command("deploy.bench.load", "create", "--bootstrap", target.bootstrap)
            answer_of_program(command, "a topic", CREATE_TIMEOUT_S)
            bus = BusSettings(bootstrap_servers=target.bootstrap)
            with closing(ClusterAdmin(bus, "bench")) as admin:
                others = _others()
                _add(admin, [_allow("bench", CAMERAS), *islice(others, FEW - 1)])
                cameras(CONNECTIONS, RATE, target)  # warm
                few_us, _ = cameras(CONNECTIONS, RATE, target)
                _add(admin, list(islice(others, MANY - FEW)))
                many_us, _ = cameras(CONNECTIONS, RATE, target)
                return many_us / few_us


def _others() -> Iterator[AclBinding]:
    number = 0
    while True:
        pattern = Pattern.PREFIXED if number % 2 else Pattern.LITERAL
        host = f"10.{number >> 12 & 255}.{number >> 6 & 63}.{number & 63}"
        yield _allow(f"site-{number}", f"User:user-{number % 500}", pattern, host)
        number += 1


def _allow(
    topic: str, user: str, pattern: Pattern = Pattern.LITERAL, host: str = "*"
) -> AclBinding:
    return AclBinding(
        Resource.TOPIC, topic, pattern, user, host, Operation.WRITE, Permission.ALLOW
    )


def _add(admin: ClusterAdmin, bindings: list[AclBinding]) -> None:
    """Raises BusError."""
    for at in range(0, len(bindings), AT_ONCE):
        admin.create_acls(bindings[at : at + AT_ONCE])
