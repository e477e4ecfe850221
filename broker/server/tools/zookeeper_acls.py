"""A standing tree in ZooKeeper is given to the login of the brokers, or opened to everybody.

In: a session that has logged in. Out: how many nodes have got which entries. Never: a change of
what a node holds.

The twin of Kafka's zookeeper-security-migration: the same nodes get the same entries. Brokers may
run meanwhile; those with `zookeeper.set.acl` make new nodes so from their start on.
"""

from __future__ import annotations

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.zk.port import ZooKeeperError, ZooKeeperErrorKind, ZooKeeperSession
from broker.controller.zk.znode_acls import SECURED_ROOTS, default_acls
from broker.server.control_plane import StartError
from broker.server.tools.first_connection import FirstConnection

ROOT = "/"


async def set_tree_acls(
    config: BrokerConfig, clock: Clock, session: ZooKeeperSession, *, is_secure: bool
) -> int:
    """How many nodes have got their entries. Raises StartError; what has got them by then keeps
    them, and the command may be given again."""
    waiting = FirstConnection(session)
    session.start(waiting)
    try:
        await waiting.wait(clock, int(config["zookeeper.connection.timeout.ms"]))
        await session.set_acls(ROOT, default_acls(ROOT, is_secure=is_secure))
        done = 1
        for root in SECURED_ROOTS:
            done += await _set_below(session, root, is_secure=is_secure)
        return done
    except ZooKeeperError as error:
        raise StartError(f"not all nodes have got their entries: {error}") from error
    finally:
        await session.close()


async def _set_below(session: ZooKeeperSession, path: str, *, is_secure: bool) -> int:
    """A node that there is not, or that goes meanwhile, has none."""
    done = 0
    waiting = [path]
    while waiting:
        one = waiting.pop()
        try:
            await session.set_acls(one, default_acls(one, is_secure=is_secure))
            names = await session.children(one)
        except ZooKeeperError as error:
            if error.kind is not ZooKeeperErrorKind.NO_NODE:
                raise
            continue
        done += 1
        waiting += [f"{one}/{name}" for name in names]
    return done
