"""What a broker's heartbeat leads to: the states of a broker as the controller sees them.

In: the image, the heartbeat, what the controller remembers of sessions. Out: the next state with
its records. Never: a clock. Kafka: BrokerHeartbeatManager.calculateNextBrokerState.

| state \\ wants | serve | to be fenced | to shut down |
|---|---|---|---|
| FENCED | UNFENCED once it has read its own registration | FENCED | SHUTDOWN_NOW |
| UNFENCED | UNFENCED | FENCED | CONTROLLED_SHUTDOWN, or SHUTDOWN_NOW if it leads nothing |
| CONTROLLED_SHUTDOWN | as to shut down | SHUTDOWN_NOW | CONTROLLED_SHUTDOWN until it leads \
nothing and the others know that |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from broker.controller.decisions import brokers, directories
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.leadership import leads_anything
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import BrokerImage, MetadataImage
from bus.errors import ErrorCode


class BrokerControlState(Enum):
    """A registered broker as the controller sees it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """Whether a broker in this state is counted on for nothing."""
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A broker's heartbeat."""

    broker_id: int
    epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The reply to a heartbeat."""

    state: BrokerControlState = BrokerControlState.FENCED
    is_caught_up: bool = False
    error: ErrorCode = ErrorCode.NONE

    @property
    def is_fenced(self) -> bool:
        """A field of BrokerHeartbeat's response."""
        return self.state.is_fenced

    @property
    def should_shut_down(self) -> bool:
        """A field of BrokerHeartbeat's response."""
        return self.state is BrokerControlState.SHUTDOWN_NOW


def state_of(broker: BrokerImage) -> BrokerControlState:
    """The state according to the records."""
    if broker.fenced:
        return BrokerControlState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def next_state(
    state: BrokerControlState, beat: Heartbeat, ready: bool, leads: bool, others_caught_up: bool
) -> BrokerControlState:
    """The table above. `ready`: it has read its registration and was not shutting down;
    `others_caught_up`: every other broker has read that this one leads nothing."""
    if state is BrokerControlState.FENCED:
        if beat.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        if beat.want_fence or not ready:
            return BrokerControlState.FENCED
        return BrokerControlState.UNFENCED
    if beat.want_fence:
        return BrokerControlState.SHUTDOWN_NOW if beat.want_shut_down else BrokerControlState.FENCED
    if state is BrokerControlState.UNFENCED:
        if not beat.want_shut_down:
            return BrokerControlState.UNFENCED
        return BrokerControlState.CONTROLLED_SHUTDOWN if leads else BrokerControlState.SHUTDOWN_NOW
    if leads or not others_caught_up:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.SHUTDOWN_NOW


def answer_heartbeat(
    image: MetadataImage, policy: PartitionPolicy, beat: Heartbeat, others_caught_up: bool
) -> Decision[HeartbeatReply]:
    """The records of a heartbeat, and the reply once they are committed."""
    if brokers.broker_of_epoch(image, beat.broker_id, beat.epoch) is None:
        return Decision((), HeartbeatReply(error=ErrorCode.STALE_BROKER_EPOCH))
    offline = directories.handle_offline_directories(
        image, policy, beat.broker_id, beat.offline_log_dirs
    )
    cordoned = directories.cordon(image, beat.broker_id, beat.cordoned_log_dirs)
    first = (*offline, *cordoned)
    image = _after(image, first)
    broker = image.brokers[beat.broker_id]
    state = state_of(broker)
    leads = beat.want_shut_down and leads_anything(image, beat.broker_id)
    caught_up = beat.metadata_offset >= beat.epoch
    ready = caught_up and not broker.in_controlled_shutdown
    target = next_state(state, beat, ready, leads, others_caught_up)
    records: tuple[object, ...] = ()
    if target is not state or (state is BrokerControlState.CONTROLLED_SHUTDOWN and leads):
        # A stopping broker may have come to lead again: it was all that was left.
        records = _transition(image, policy, beat, target)
    return Decision((*first, *records), HeartbeatReply(target, caught_up))


def _transition(
    image: MetadataImage, policy: PartitionPolicy, beat: Heartbeat, target: BrokerControlState
) -> tuple[object, ...]:
    broker_id, epoch = beat.broker_id, beat.epoch
    if target is BrokerControlState.UNFENCED:
        return brokers.unfence(image, policy, broker_id, epoch).records
    if target is BrokerControlState.CONTROLLED_SHUTDOWN:
        return brokers.enter_controlled_shutdown(image, policy, broker_id, epoch).records
    return brokers.fence(image, policy, broker_id, epoch).records


def _after(image: MetadataImage, records: tuple[object, ...]) -> MetadataImage:
    """The image as these records will make it, for further decisions."""
    if not records:
        return image
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset, image.epoch).image
