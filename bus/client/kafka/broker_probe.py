"""Whether one broker answers, asked with the security that all our clients use.

In: BusSettings, the broker's address. Out: nothing, or BusError with librdkafka's own reason.
Never: an answer of another broker: each question is a client of its own that knows this address.
"""

from __future__ import annotations

import confluent_kafka
from confluent_kafka.admin import AdminClient

from bus.client.kafka.config import admin_config
from bus.client.kafka.errors import bus_error
from bus.client.wire.ports import Address
from bus.errors import BusError
from bus.settings import BusSettings


def ask_broker(bus: BusSettings, address: Address, client_id: str, timeout_s: float) -> None:
    """Connect, log in, ask for metadata. Raises BusError.

    The first answer to a new client comes over its bootstrap connection, thus from this broker.
    """
    faults: list[str] = []
    config = {
        **admin_config(bus, client_id, {"log_level": 0}),
        "bootstrap.servers": str(address),
        "error_cb": lambda fault: faults.append(fault.str()),
    }
    try:
        client = AdminClient(config)
    except confluent_kafka.KafkaException as refused:  # a certificate that cannot be read
        raise bus_error(refused) from refused
    try:
        client.list_topics(timeout=timeout_s)
    except confluent_kafka.KafkaException as failure:
        client.poll(0)  # calls `error_cb` with what went wrong on the connection
        error = bus_error(failure)
        raise BusError(error.code, faults[0] if faults else error.detail) from failure
    finally:
        client.__exit__(None, None, None)
