"""A broker's life with its controller: registration, heartbeats, the controlled stop (KIP-500).

In: a `ControllerLink`, what the broker says of itself. Out: registered, unfenced, released; or
StartError. Never: metadata; which image the broker acts on is the plane's business.

| state | wants | until |
|---|---|---|
| STARTING | to be registered | the controller took the registration |
| RECOVERY | to stay fenced | the rooms serve (`ready`) |
| RUNNING | to serve | `leave` |
| LEAVING | to shut down | the controller says it may, or LEAVE_LIMIT_MS |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig
from broker.metadata.image import Endpoint
from broker.metadata.versions import KRAFT_VERSION, SUPPORTED
from broker.peer.controller_link import ControllerLink
from broker.peer.errors import PeerError
from broker.server.plane import StartError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bus.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

log = logging.getLogger("broker.server")

REGISTER_AGAIN_MS = 100
"""Between two registrations while the broker's last life is still counted as alive: its probe
takes about 300 ms, so a restart after a kill waits little longer than that."""

WAITING_INTERVAL_MS = 20
"""Between heartbeats of a broker that wants to serve or to leave: its clients wait for it."""

FAILED_INTERVAL_MS = 100
"""Before a heartbeat that failed is sent again: an election takes some hundred milliseconds."""

LEAVE_LIMIT_MS = 15_000
"""A stop that the controller does not let go on goes on: whoever stops us kills us after 30 s."""

UNHEARD_LIMIT_MS = 3_000
"""The same where no controller answers: the whole cluster is being stopped. Three elections."""

FIRST_SAID_S = 1.0
"""An election takes less; whoever waits longer wants to know for what."""

SAY_AGAIN_S = 10.0
"""How often a broker that waits for its controllers says so."""


class State(Enum):
    """The table above."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    LEAVING = "leaving"
    GONE = "gone"


_FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its log directories belong to another cluster than the "
    "controllers; name the right log.dirs or the right controllers, nothing was changed",
    ErrorCode.UNSUPPORTED_VERSION: "it does not know the feature levels of this cluster; start "
    "a newer version of this program, nothing was changed",
    ErrorCode.INVALID_REGISTRATION: "the controller refuses what it says of itself (its log says "
    "why); compare node.id, listeners and log.dirs with the other brokers'",
}


@dataclass(frozen=True, slots=True)
class Self:
    """What the broker says of itself when it registers."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    rack: str | None
    directories: tuple[bytes, ...]
    previous_epoch: int


class BrokerLifecycle:
    """One broker's registration.

    Invariant: `epoch` is that of the newest registration the controller has taken, -1 before.
    """

    def __init__(
        self,
        me: Self,
        clock: Clock,
        link: ControllerLink,
        config: BrokerConfig,
        *,
        metadata_offset: Callable[[], int],
        offline_directories: Callable[[], tuple[bytes, ...]],
        cordoned_directories: Callable[[], tuple[bytes, ...]],
        fail: Callable[[StartError], None],
    ) -> None:
        self.me = me
        self.epoch = -1
        self.state = State.STARTING
        self.is_fenced = True
        self._heard_at = 0.0
        self._clock = clock
        self._link = link
        self._config = config
        self._metadata_offset = metadata_offset
        self._offline_directories = offline_directories
        self._cordoned_directories = cordoned_directories
        self._fail = fail
        self._endpoints: tuple[Endpoint, ...] = ()
        self._task: TaskHandle | None = None
        self._woken: asyncio.Future[None] | None = None
        self._changed = asyncio.Event()

    async def register(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Until the controller has taken the registration; the broker's epoch. Raises StartError
        for what waiting does not mend."""
        self._endpoints = endpoints
        started = self._clock.monotonic()
        said = started + FIRST_SAID_S - SAY_AGAIN_S
        while True:
            waiting_for = await self._try_to_register()
            if waiting_for is None:
                self.state = State.RECOVERY
                return self.epoch
            now = self._clock.monotonic()
            if isinstance(waiting_for, ErrorCode):
                limit_ms = self._config["initial.broker.registration.timeout.ms"]
                if (now - started) * 1000 > limit_ms:
                    raise StartError(self._refused(waiting_for))
            if now - said >= SAY_AGAIN_S:
                said = now
                log.warning(
                    "broker %d waits for its controllers since %d s: %s",
                    self.me.node_id, now - started, waiting_for,
                )
            await self._clock.sleep(REGISTER_AGAIN_MS / 1000)

    def start(self) -> None:
        """Report from now on."""
        self._task = self._clock.spawn(self._report(), name="broker-heartbeats")

    async def ready(self) -> None:
        """The rooms serve: until the controller counts on this broker."""
        self.state = State.RUNNING
        self.wake()
        while self.is_fenced and self.state is State.RUNNING:
            self._changed.clear()
            await self._changed.wait()

    async def leave(self) -> None:
        """Ask to shut down; until that is allowed or LEAVE_LIMIT_MS have passed."""
        if self.state is not State.RUNNING:
            self.state = State.GONE
            return
        self.state = State.LEAVING
        self.wake()
        deadline = self._clock.monotonic() + LEAVE_LIMIT_MS / 1000
        self._heard_at = self._clock.monotonic()
        while not self._left():
            now = self._clock.monotonic()
            heard_until = self._heard_at + UNHEARD_LIMIT_MS / 1000
            if now >= min(deadline, heard_until):
                break
            self._changed.clear()
            limit = self._clock.call_later(min(deadline, heard_until) - now, self._changed.set)
            await self._changed.wait()
            limit.cancel()
        if not self._left():
            log.warning("broker %d stops without the controller's consent", self.me.node_id)
        self.state = State.GONE

    def stop(self) -> None:
        """Report no more."""
        self.state = State.GONE
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Something is worth reporting now."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _left(self) -> bool:
        return self.state is State.GONE

    # -- registering ------------------------------------------------------------------

    async def _try_to_register(self) -> ErrorCode | str | None:
        """None when registered; else what stands in the way."""
        try:
            answer = await self._link.request(
                ApiKey.BROKER_REGISTRATION,
                self._registration(),
                timeout_ms=self._config["controller.quorum.request.timeout.ms"],
                retry=False,
            )
        except PeerError as error:
            return str(error)
        code = ErrorCode.of(answer.error_code)
        if code in _FATAL:
            raise StartError(self._refused(code))
        if code:
            return code
        self.epoch = answer.broker_epoch
        return None

    def _refused(self, code: ErrorCode) -> str:
        if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            why = "another live broker has the same node.id; give each broker its own"
        else:
            why = _FATAL.get(code, f"{code.name}: {code.text}")
        return f"broker {self.me.node_id} cannot join cluster {self.me.cluster_id}: {why}"

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.me.node_id,
            cluster_id=self.me.cluster_id,
            incarnation_id=self.me.incarnation_id,
            listeners=[
                Listener(
                    name=end.name, host=end.host, port=end.port,
                    security_protocol=end.security_protocol,
                )
                for end in self._endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED.items())
                if name != KRAFT_VERSION
            ],
            rack=self.me.rack,
            log_dirs=sorted(self.me.directories),
            previous_broker_epoch=self.me.previous_epoch,
        )

    # -- reporting --------------------------------------------------------------------

    async def _report(self) -> None:
        while self.state is not State.GONE:
            took = await self._heartbeat()
            if self._left():
                break
            impatient = self.state is State.LEAVING or (
                self.state is State.RUNNING and self.is_fenced
            )
            interval_ms = self._config["broker.heartbeat.interval.ms"]
            if not took:
                interval_ms = min(interval_ms, FAILED_INTERVAL_MS)
            elif impatient:
                interval_ms = min(interval_ms, WAITING_INTERVAL_MS)
            await self._pause(interval_ms / 1000)
        self._changed.set()

    async def _heartbeat(self) -> bool:
        """One report; whether it was taken."""
        request = BrokerHeartbeatRequest(
            broker_id=self.me.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=self.state is State.RECOVERY,
            want_shut_down=self.state is State.LEAVING,
            offline_log_dirs=list(self._offline_directories()),
            cordoned_log_dirs=list(self._cordoned_directories()),
        )
        try:
            answer = await self._link.request(
                ApiKey.BROKER_HEARTBEAT,
                request,
                timeout_ms=self._config["controller.quorum.request.timeout.ms"],
                retry=False,
            )
        except PeerError as error:
            log.debug("heartbeat failed: %s", error)
            return False
        return await self._took(answer)

    async def _took(self, answer: BrokerHeartbeatResponse) -> bool:
        self._heard_at = self._clock.monotonic()
        code = ErrorCode.of(answer.error_code)
        if code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            # The controller forgot this registration (an operator unregistered the broker, or
            # another process took its place): ask again; a duplicate is refused there.
            log.warning("broker %d is not registered any more: %s", self.me.node_id, code.name)
            self.is_fenced = True
            await self._try_again_to_register()
            return False
        if code:  # NOT_CONTROLLER for the most part
            log.debug("heartbeat was answered with %s", code.name)
            return False
        if answer.is_fenced != self.is_fenced:
            log.info(
                "broker %d is %s", self.me.node_id, "fenced" if answer.is_fenced else "unfenced"
            )
        self.is_fenced = answer.is_fenced
        if self.state is State.LEAVING and answer.should_shut_down:
            self.state = State.GONE
        self._changed.set()
        return True

    async def _try_again_to_register(self) -> None:
        try:
            code = await self._try_to_register()
        except StartError as error:
            self._fail(error)
            return
        if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._fail(StartError(self._refused(code)))

    async def _pause(self, seconds: float) -> None:
        woken = self._woken = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, self.wake)
        try:
            await woken
        finally:
            timer.cancel()
