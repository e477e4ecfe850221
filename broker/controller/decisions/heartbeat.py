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
from broker.controller.decisions.rules import Rules
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import BrokerImage, MetadataImage
from bus.errors import ErrorCode


class BrokerState(Enum):
    """A registered broker as the controller sees it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """Whether a broker in this state is counted on for nothing."""
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a broker says of itself."""

    broker_id: int
    epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What it hears."""

    state: BrokerState = BrokerState.FENCED
    is_caught_up: bool = False
    error: ErrorCode = ErrorCode.NONE

    @property
    def is_fenced(self) -> bool:
        """As BrokerHeartbeat's answer has it."""
        return self.state.is_fenced

    @property
    def should_shut_down(self) -> bool:
        """As BrokerHeartbeat's answer has it."""
        return self.state is BrokerState.SHUTDOWN_NOW


def state_of(broker: BrokerImage) -> BrokerState:
    """The state that the records say."""
    if broker.fenced:
        return BrokerState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def next_state(
    state: BrokerState, beat: Heartbeat, ready: bool, leads: bool, others_know: bool
) -> BrokerState:
    """The table above. `ready`: it has read its registration and was not about to stop;
    `others_know`: every other broker has read that this one leads nothing."""
    if state is BrokerState.FENCED:
        if beat.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        if beat.want_fence or not ready:
            return BrokerState.FENCED
        return BrokerState.UNFENCED
    if beat.want_fence:
        return BrokerState.SHUTDOWN_NOW if beat.want_shut_down else BrokerState.FENCED
    if state is BrokerState.UNFENCED:
        if not beat.want_shut_down:
            return BrokerState.UNFENCED
        return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
    if leads or not others_know:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.SHUTDOWN_NOW


def answer_heartbeat(
    image: MetadataImage, rules: Rules, beat: Heartbeat, others_know: bool
) -> Decision[Answer]:
    """The records of a heartbeat, and what to answer once they are committed."""
    if brokers.broker_of_epoch(image, beat.broker_id, beat.epoch) is None:
        return Decision((), Answer(error=ErrorCode.STALE_BROKER_EPOCH))
    offline = directories.lose(image, rules, beat.broker_id, beat.offline_log_dirs)
    cordoned = directories.cordon(image, beat.broker_id, beat.cordoned_log_dirs)
    first = (*offline, *cordoned)
    image = _after(image, first)
    broker = image.brokers[beat.broker_id]
    state = state_of(broker)
    leads = beat.want_shut_down and leads_anything(image, beat.broker_id)
    caught_up = beat.metadata_offset >= beat.epoch
    ready = caught_up and not broker.in_controlled_shutdown
    wanted = next_state(state, beat, ready, leads, others_know)
    records: tuple[object, ...] = ()
    if wanted is not state or (state is BrokerState.CONTROLLED_SHUTDOWN and leads):
        # A stopping broker may have come to lead again: it was all that was left.
        records = _transition(image, rules, beat, wanted)
    return Decision((*first, *records), Answer(wanted, caught_up))


def _transition(
    image: MetadataImage, rules: Rules, beat: Heartbeat, wanted: BrokerState
) -> tuple[object, ...]:
    broker_id, epoch = beat.broker_id, beat.epoch
    if wanted is BrokerState.UNFENCED:
        return brokers.unfence(image, rules, broker_id, epoch).records
    if wanted is BrokerState.CONTROLLED_SHUTDOWN:
        return brokers.enter_controlled_shutdown(image, rules, broker_id, epoch).records
    return brokers.fence(image, rules, broker_id, epoch).records


def _after(image: MetadataImage, records: tuple[object, ...]) -> MetadataImage:
    """The image as these records will make it, to decide on further."""
    if not records:
        return image
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset, image.epoch).image
