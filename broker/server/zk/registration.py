"""Keeps a running broker's registration in ZooKeeper and its configuration up to date.

Session and watch events wake one task, which registers the broker, reads configurations and reports
failed log directories. A step that fails is retried before any later one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.clock.port import TaskHandle
from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import BrokerZnode, DuplicateBroker
from broker.controller.zk.configs import NOTIFICATION_FOLDERS
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.controller_requests import ControllerRequestHandler
from broker.controller.zk.port import SessionState, ZooKeeperError, ZooKeeperSession
from broker.peer.log_limiter import LogRateLimiter
from broker.server.control_plane import Runtime
from broker.server.zk.startup import RETRY_S

log = logging.getLogger("broker.server")


class BrokerRegistration:
    """Invariant: `registered_session` is the session that created this broker's node, 0 before it;
    the controller takes part in elections only under such a session."""

    def __init__(
        self,
        runtime: Runtime,
        session: ZooKeeperSession,
        info: znodes.BrokerInfo,
        controller: ZooKeeperController,
        follower: ControllerRequestHandler,
        step_down: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._controller = controller
        self._follower = follower
        self._step_down = step_down
        self.member = BrokerZnode(
            session,
            runtime.clock,
            info,
            int(runtime.config["zookeeper.session.timeout.ms"]),
            follower.replay,
            lambda: follower.image,
        )
        self.registered_session = 0
        self._notifications_due = False
        self._failure_due = False
        self._woken = asyncio.Event()
        self._task: TaskHandle | None = None

    # -- events ---------------------------------------------------------------------------

    def wake(self) -> None:
        """Run the task: the session is connected, or our node changed."""
        self._woken.set()

    def handle_watch(self, path: str) -> bool:
        """Handle a watch event; False if it concerns something else."""
        if path in NOTIFICATION_FOLDERS:
            self._notifications_due = True
        elif path != self.member.path:
            return False
        self._woken.set()
        return True

    def on_directory_failed(self) -> None:
        """Report the failed directory to the controller."""
        self._failure_due = True
        self._woken.set()

    # -- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the task."""
        self._task = self._runtime.clock.spawn(self._run(), name="zookeeper-member")
        self._woken.set()

    def stop(self) -> None:
        """Stop the task; the node goes with the session."""
        if self._task is not None:
            self._task.cancel()

    async def register(self) -> None:
        """Create this broker's node, and read the configurations."""
        session_id = self._session.session_id
        epoch = await self.member.register()
        self.registered_session = session_id
        self._follower.on_registered(epoch)
        log.info("broker %d is registered, epoch %d", self._runtime.config.node_id, epoch)
        await self.member.read_configs()

    async def _run(self) -> None:
        """Synchronize after each reconnect and each watch event."""
        silence = LogRateLimiter()
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._session.state is not SessionState.CONNECTED:
                continue
            now_s = self._runtime.clock.monotonic()
            try:
                await self._sync()
                silence.ended(now_s)
                continue
            except ZooKeeperError as error:
                if silence.should_log(now_s):
                    log.info("left for later: %s", error)
            except (DuplicateBroker, znodes.ZnodeError) as error:
                if silence.should_log(now_s):
                    log.error("%s", error)
            except Exception:  # another program's node, which a restart would find again
                if silence.should_log(now_s):
                    log.exception("this broker's place in ZooKeeper is left as it is for now")
            self._runtime.clock.call_later(RETRY_S, self._woken.set)

    async def _sync(self) -> None:
        member = self.member
        session_id = self._session.session_id
        if session_id != self.registered_session or not await member.watch_own_node():
            if session_id == self.registered_session:
                # Our node was removed: for the other brokers this one has left.
                log.warning("this broker's node was removed; it registers again")
                self._step_down()
            await self.register()
            if not await member.watch_own_node():
                self._woken.set()  # removed again before it was watched
            self._controller.on_session(SessionState.CONNECTED)
            self._controller.elect()
        elif self._failure_due:
            await member.report_failed_directory()
            self._failure_due = False
            self._woken.set()
        elif self._notifications_due:
            self._notifications_due = False
            self._controller.on_change_notifications(await member.read_change_notifications())
        else:
            await member.read_configs()
