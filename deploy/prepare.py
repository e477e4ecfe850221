"""What must be there before the processes start: Java, the connector, the topics.

In: settings. Out: a prepared machine, or an `OperatorError` that says what is missing.
Never: starting a process of the product.
"""

from __future__ import annotations

from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.errors import OperatorError
from deploy.settings import Settings
from deploy.setup.jars import spark_connector_jars
from deploy.setup.java import ensure_java

TOPICS_TIMEOUT_S = 60.0


def prepare(settings: Settings) -> None:
    """Java and the connector's jars, fetched if need be."""
    ensure_java()
    if not settings.streams.jars:
        spark_connector_jars()


def make_topics(bus: BusSettings) -> None:
    """All topics of the contract, those that are there left alone; waits for the bus to come up."""
    admin = Admin(bus, client_id="databus")
    try:
        admin.wait_until_up(TOPICS_TIMEOUT_S)
        admin.ensure_topics(TOPICS.values())
    except BusError as error:
        raise OperatorError(f"the topics could not be made: {error}") from error
    finally:
        admin.close()
