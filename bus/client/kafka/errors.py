"""librdkafka's errors as our typed ones.

In: a `KafkaError`. Out: `BusError`s. Its codes above zero are Kafka's own; those below are its
opinions about the connection, which become the nearest code with its own words as the detail.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from bus.errors import BusError, ErrorCode


class DeliveryError(BusError):
    """A record that was not acknowledged. `retriable` says whether sending it again makes sense."""

    def __init__(self, code: ErrorCode, detail: str, topic: str) -> None:
        super().__init__(code, f"{topic}: {detail}")
        self.topic = topic


class QueueFull(BusError):
    """The producer's queue stayed full: the bus takes less than it is given, or is away."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            ErrorCode.REQUEST_TIMED_OUT, f"{topic}: the producer's queue is full; is the bus away?"
        )


class ClientFailed(BusError):
    """librdkafka gave up for good (an idempotent producer lost its place): make a new client."""


_LOCAL: dict[int, ErrorCode] = {
    KafkaError._ALL_BROKERS_DOWN: ErrorCode.NETWORK_EXCEPTION,
    KafkaError._TRANSPORT: ErrorCode.NETWORK_EXCEPTION,
    KafkaError._RESOLVE: ErrorCode.NETWORK_EXCEPTION,
    KafkaError._DESTROY_BROKER: ErrorCode.NETWORK_EXCEPTION,  # it left the cluster meanwhile
    KafkaError._NOENT: ErrorCode.LEADER_NOT_AVAILABLE,  # "No leaders found"
    KafkaError._TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._MSG_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._QUEUE_FULL: ErrorCode.REQUEST_TIMED_OUT,
    KafkaError._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError._AUTHENTICATION: ErrorCode.SASL_AUTHENTICATION_FAILED,
    KafkaError._INVALID_ARG: ErrorCode.INVALID_REQUEST,
    KafkaError._UNSUPPORTED_FEATURE: ErrorCode.UNSUPPORTED_VERSION,
    KafkaError._NO_OFFSET: ErrorCode.OFFSET_OUT_OF_RANGE,
    KafkaError._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE,
}


def code_of(error: KafkaError) -> ErrorCode:
    """Kafka's code for an error of librdkafka."""
    number = error.code()
    if number >= 0:
        return ErrorCode.of(number)
    return _LOCAL.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def bus_error(failure: KafkaException | KafkaError) -> BusError:
    """A failed call as a BusError."""
    error = failure.args[0] if isinstance(failure, KafkaException) else failure
    return BusError(code_of(error), error.str())
