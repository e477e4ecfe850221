"""A broker's place in the ensemble while it runs: registered, watched, and up to date.

In: news of the session and of watches. Out: registrations, configurations, notes that a log
directory has failed. Core: `zk.member`. Never: a step after one that failed; it comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.clock.port import TaskHandle
from broker.controller.zk import znodes
from broker.controller.zk.configs import NOTE_FOLDERS
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.follower import Follower
from broker.controller.zk.member import DuplicateBroker, Member
from broker.controller.zk.port import SessionState, ZooKeeperError, ZooKeeperSession
from broker.peer.silence import Silence
from broker.server.plane import Ports
from broker.server.zookeeper_opening import RETRY_S

log = logging.getLogger("broker.server")


class Place:
    """Invariant: `registered_session` is the session that made this broker's node, 0 before it; the
    controller stands for election only under such a session."""

    def __init__(
        self,
        ports: Ports,
        session: ZooKeeperSession,
        info: znodes.BrokerInfo,
        controller: ZooKeeperController,
        follower: Follower,
        step_down: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._session = session
        self._controller = controller
        self._follower = follower
        self._step_down = step_down
        self.member = Member(
            session,
            ports.clock,
            info,
            int(ports.config["zookeeper.session.timeout.ms"]),
            follower.replay,
            lambda: follower.image,
        )
        self.registered_session = 0
        self._notes_due = False
        self._failure_due = False
        self._wake = asyncio.Event()
        self._task: TaskHandle | None = None

    # -- news -----------------------------------------------------------------------------

    def look(self) -> None:
        """Something has happened: the session is connected, or our node changed."""
        self._wake.set()

    def is_ours(self, path: str) -> bool:
        """Whether a watch is this room's; then it is taken."""
        if path in NOTE_FOLDERS:
            self._notes_due = True
        elif path != self.member.path:
            return False
        self._wake.set()
        return True

    def directory_failed(self) -> None:
        """The controller is to be told."""
        self._failure_due = True
        self._wake.set()

    # -- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """From now on the place is kept."""
        self._task = self._ports.clock.spawn(self._run(), name="zookeeper-member")
        self._wake.set()

    def stop(self) -> None:
        """It is given up with the session."""
        if self._task is not None:
            self._task.cancel()

    async def register(self) -> None:
        """Make this broker's node, and read the configurations."""
        session_id = self._session.session_id
        epoch = await self.member.register()
        self.registered_session = session_id
        self._follower.registered(epoch)
        log.info("broker %d is registered, epoch %d", self._ports.config.node_id, epoch)
        await self.member.read_configs()

    async def _run(self) -> None:
        """After each reconnect, and whenever a watch says so."""
        silence = Silence()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._session.state is not SessionState.CONNECTED:
                continue
            now_s = self._ports.clock.monotonic()
            try:
                await self._keep()
                silence.ended(now_s)
                continue
            except ZooKeeperError as error:
                if silence.worth_saying(now_s):
                    log.info("left for later: %s", error)
            except (DuplicateBroker, znodes.ZnodeError) as error:
                if silence.worth_saying(now_s):
                    log.error("%s", error)
            except Exception:  # a node that somebody else wrote, and that is there after a restart
                if silence.worth_saying(now_s):
                    log.exception("this broker's place in ZooKeeper is left as it is for now")
            self._ports.clock.call_later(RETRY_S, self._wake.set)

    async def _keep(self) -> None:
        member = self.member
        session_id = self._session.session_id
        if session_id != self.registered_session or not await member.watch_own_node():
            if session_id == self.registered_session:
                # Somebody has removed our node: for the others we have gone.
                log.warning("this broker's node was removed; it registers anew")
                self._step_down()
            await self.register()
            if not await member.watch_own_node():
                self._wake.set()  # removed again before it was watched
            self._controller.on_session(SessionState.CONNECTED)
            self._controller.stand()
        elif self._failure_due:
            await member.note_failed_directory()
            self._failure_due = False
            self._wake.set()
        elif self._notes_due:
            self._notes_due = False
            self._controller.on_notes(await member.take_notes())
        else:
            await member.read_configs()
