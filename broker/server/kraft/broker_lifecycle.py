"""A broker's registration, heartbeats and controlled shutdown with its controller (KIP-500).

Which image the broker acts on is the control plane's decision.

| state | requests | until |
|---|---|---|
| STARTING | registration | the controller accepts it |
| RECOVERY | to stay fenced | the components serve (`wait_until_unfenced`) |
| RUNNING | to serve | `controlled_shutdown` |
| PENDING_CONTROLLED_SHUTDOWN | to shut down | the controller agrees, or the limit is over |
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
from broker.peer.controller_channel import ControllerChannel
from broker.server.control_plane import StartError
from bus.client.wire.errors import PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bus.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

log = logging.getLogger("broker.server")

REGISTRATION_RETRY_MS = 100
"""Between two registrations while the controller still counts the broker's former process as alive:
its probe takes about 300 ms, so a restart after a kill waits little longer than that."""

WAITING_INTERVAL_MS = 20
"""Between heartbeats of a broker that waits to be unfenced or to shut down: clients wait for it."""

FAILED_INTERVAL_MS = 100
"""Before a heartbeat that failed is sent again: an election takes some hundred milliseconds."""

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 15_000
"""The broker stops after this time without the controller's consent: supervisors kill a process 30
s after they ask it to stop."""

NO_CONTROLLER_TIMEOUT_MS = 3_000
"""The same where no controller responds: the whole cluster is being stopped. Three elections."""

FIRST_WARNING_S = 1.0
"""An election takes less; a longer wait is logged with its reason."""

WARNING_INTERVAL_S = 10.0
"""How often a broker that waits for its controllers logs that."""


class LifecycleState(Enum):
    """The table above."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "leaving"
    SHUTTING_DOWN = "gone"


_FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its log directories belong to another cluster than the "
    "controllers; name the right log.dirs or the right controllers, nothing was changed",
    ErrorCode.UNSUPPORTED_VERSION: "it does not know the feature levels of this cluster; start "
    "a newer version of this program, nothing was changed",
    ErrorCode.INVALID_REGISTRATION: "the controller refuses what it says of itself (its log says "
    "why); compare node.id, listeners and log.dirs with the other brokers'",
}


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What the broker registers about itself."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    rack: str | None
    directories: tuple[bytes, ...]
    previous_epoch: int


class BrokerLifecycleManager:
    """One broker's registration.

    Invariant: `epoch` is that of the newest registration the controller has accepted, -1 before.
    """

    def __init__(
        self,
        me: BrokerIdentity,
        clock: Clock,
        link: ControllerChannel,
        config: BrokerConfig,
        *,
        metadata_offset: Callable[[], int],
        offline_directories: Callable[[], tuple[bytes, ...]],
        cordoned_directories: Callable[[], tuple[bytes, ...]],
        fail: Callable[[StartError], None],
    ) -> None:
        self.me = me
        self.epoch = -1
        self.state = LifecycleState.STARTING
        self.is_fenced = True
        self._last_response_at = 0.0
        self._clock = clock
        self._controller_channel = link
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
        """Register, and retry until the controller accepts; the broker's epoch. Raises StartError
        for what waiting does not fix."""
        self._endpoints = endpoints
        started = self._clock.monotonic()
        said = started + FIRST_WARNING_S - WARNING_INTERVAL_S
        while True:
            waiting_for = await self._try_to_register()
            if waiting_for is None:
                self.state = LifecycleState.RECOVERY
                return self.epoch
            now = self._clock.monotonic()
            if isinstance(waiting_for, ErrorCode):
                limit_ms = self._config["initial.broker.registration.timeout.ms"]
                if (now - started) * 1000 > limit_ms:
                    raise StartError(self._refusal_text(waiting_for))
            if now - said >= WARNING_INTERVAL_S:
                said = now
                log.warning(
                    "broker %d waits for its controllers since %d s: %s",
                    self.me.node_id, now - started, waiting_for,
                )
            await self._clock.sleep(REGISTRATION_RETRY_MS / 1000)

    def start(self) -> None:
        """Send heartbeats from now on."""
        self._task = self._clock.spawn(self._heartbeat_loop(), name="broker-heartbeats")

    async def wait_until_unfenced(self) -> None:
        """Request to be unfenced, and wait until the controller has done it."""
        self.state = LifecycleState.RUNNING
        self.wake()
        while self.is_fenced and self.state is LifecycleState.RUNNING:
            self._changed.clear()
            await self._changed.wait()

    async def controlled_shutdown(self) -> None:
        """Request to shut down; wait until that is allowed, but at most
        CONTROLLED_SHUTDOWN_TIMEOUT_MS."""
        if self.state is not LifecycleState.RUNNING:
            self.state = LifecycleState.SHUTTING_DOWN
            return
        self.state = LifecycleState.PENDING_CONTROLLED_SHUTDOWN
        self.wake()
        deadline = self._clock.monotonic() + CONTROLLED_SHUTDOWN_TIMEOUT_MS / 1000
        self._last_response_at = self._clock.monotonic()
        while not self._is_shut_down():
            now = self._clock.monotonic()
            heard_until = self._last_response_at + NO_CONTROLLER_TIMEOUT_MS / 1000
            if now >= min(deadline, heard_until):
                break
            self._changed.clear()
            limit = self._clock.call_later(min(deadline, heard_until) - now, self._changed.set)
            await self._changed.wait()
            limit.cancel()
        if not self._is_shut_down():
            log.warning("broker %d stops without the controller's consent", self.me.node_id)
        self.state = LifecycleState.SHUTTING_DOWN

    def stop(self) -> None:
        """Stop the heartbeats."""
        self.state = LifecycleState.SHUTTING_DOWN
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Send a heartbeat now."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _is_shut_down(self) -> bool:
        return self.state is LifecycleState.SHUTTING_DOWN

    # -- registering ------------------------------------------------------------------

    async def _try_to_register(self) -> ErrorCode | str | None:
        """None when registered; else what prevents it."""
        try:
            answer = await self._controller_channel.request(
                ApiKey.BROKER_REGISTRATION,
                self._registration(),
                timeout_ms=self._config["controller.quorum.request.timeout.ms"],
                retry=False,
            )
        except PeerError as error:
            return str(error)
        code = ErrorCode.of(answer.error_code)
        if code in _FATAL:
            raise StartError(self._refusal_text(code))
        if code:
            return code
        self.epoch = answer.broker_epoch
        return None

    def _refusal_text(self, code: ErrorCode) -> str:
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

    # -- heartbeats -------------------------------------------------------------------

    async def _heartbeat_loop(self) -> None:
        while self.state is not LifecycleState.SHUTTING_DOWN:
            took = await self._heartbeat()
            if self._is_shut_down():
                break
            impatient = self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN or (
                self.state is LifecycleState.RUNNING and self.is_fenced
            )
            interval_ms = self._config["broker.heartbeat.interval.ms"]
            if not took:
                interval_ms = min(interval_ms, FAILED_INTERVAL_MS)
            elif impatient:
                interval_ms = min(interval_ms, WAITING_INTERVAL_MS)
            await self._pause(interval_ms / 1000)
        self._changed.set()

    async def _heartbeat(self) -> bool:
        """Send one heartbeat; whether the controller accepted it."""
        request = BrokerHeartbeatRequest(
            broker_id=self.me.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=self.state is LifecycleState.RECOVERY,
            want_shut_down=self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline_directories()),
            cordoned_log_dirs=list(self._cordoned_directories()),
        )
        try:
            answer = await self._controller_channel.request(
                ApiKey.BROKER_HEARTBEAT,
                request,
                timeout_ms=self._config["controller.quorum.request.timeout.ms"],
                retry=False,
            )
        except PeerError as error:
            log.debug("heartbeat failed: %s", error)
            return False
        return await self._on_heartbeat_response(answer)

    async def _on_heartbeat_response(self, answer: BrokerHeartbeatResponse) -> bool:
        self._last_response_at = self._clock.monotonic()
        code = ErrorCode.of(answer.error_code)
        if code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            # The controller no longer has this registration (an operator unregistered the broker,
            # or another process replaced it): register again; a duplicate is refused there.
            log.warning("broker %d is not registered any more: %s", self.me.node_id, code.name)
            self.is_fenced = True
            await self._reregister()
            return False
        if code:  # NOT_CONTROLLER for the most part
            log.debug("heartbeat was answered with %s", code.name)
            return False
        if answer.is_fenced != self.is_fenced:
            log.info(
                "broker %d is %s", self.me.node_id, "fenced" if answer.is_fenced else "unfenced"
            )
        self.is_fenced = answer.is_fenced
        if self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN and answer.should_shut_down:
            self.state = LifecycleState.SHUTTING_DOWN
        self._changed.set()
        return True

    async def _reregister(self) -> None:
        try:
            code = await self._try_to_register()
        except StartError as error:
            self._fail(error)
            return
        if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._fail(StartError(self._refusal_text(code)))

    async def _pause(self, seconds: float) -> None:
        woken = self._woken = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, self.wake)
        try:
            await woken
        finally:
            timer.cancel()
